"""The same records by construct, one value at a time.

`ConstructReader` reads logs without the compiled kernel, and `RowsWalk` raises the error about an event that the kernel
refuses. `row_records` and `GroupContext` make records of typed events, for the Spark data source.
"""
