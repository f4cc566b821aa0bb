"""Builds record batches from the rows that a walk finds, in the kernel's buffers.

`TableBatcher` (in `table_batches`) builds batches of one table each with typed columns, `MixedBatcher` (in
`mixed_batches`) batches of all tables with JSON images. Both implement `RowBatcher`. `RowCounter` only counts rows.
"""
