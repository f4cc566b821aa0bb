"""Row changes of logs as Arrow record batches.

`binlogio.read_rows` and `binlogio.read_tables` (in `rows_reader`) are public. A walk reads a log window by window with
the compiled kernel, a batcher makes record batches of the rows it finds, and threads read parts of logs; `fallback`
does the same slowly by construct.

    log -> windows -> walk -> batches -> parallel -> rows_reader

`event_reader` gives records of events instead of rows, for the Spark data source.
"""
