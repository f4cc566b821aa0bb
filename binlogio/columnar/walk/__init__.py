"""Walks over the events of a log with the compiled kernel.

`LogWalk` (in `log_walk`) is the entry point. It scans the events of a window, reads events larger than a window in
parts, and passes the rows to a `RowBatcher`.
"""
