"""Readers that Spark asks for partitions and record batches.

`batch_reader` reads whole logs once, `stream_reader` follows logs that grow, and `filters` determines which filters
of a query are pushed down. The data source uses `BinlogBatchReader`, `BinlogStreamReader` and `view_columns`.
"""
