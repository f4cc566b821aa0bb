"""The walk over the events of a log by the compiled kernel.

`LogWalk` (in `log_walk`) is the entry point. It routes the events of a window, reads events larger than a window in
parts, and passes the rows to a `RowBatcher`.
"""
