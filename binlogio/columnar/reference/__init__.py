"""The same records by construct, one value at a time.

`ConstructReader` reads logs without the compiled kernel, and `RowsWalk` raises the error about an event that the kernel
refuses. `row_records`, `event_records` and `transaction_records` make records of typed events, in their groups
(`GroupContext`), for the Spark data source.
"""
