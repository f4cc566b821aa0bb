"""Record batches of the rows that a walk finds, from the kernel's buffers.

`TableBatcher` (in `table_batches`) makes batches of one table each with typed columns, `MixedBatcher` (in
`mixed_batches`) batches of all tables with JSON images. Both are a `RowBatcher`; `RowCounter` counts rows only.
"""
