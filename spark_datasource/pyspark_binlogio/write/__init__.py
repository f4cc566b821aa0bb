"""Writes records of the view `rows` as binary logs: tasks stage files, the commit makes them logs.

`transactions` groups records, `written_tables` encodes their images, `segments` writes the files of a task, and
`log_commit` appends them to the logs. The data source uses `BinlogBatchWriter` and `BinlogStreamWriter` of
`log_writer`.
"""
