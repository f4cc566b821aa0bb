"""Logs to record batches: how a log is walked, its rows events located, and their columns made into Arrow arrays.

`rows_reader` is the way in (`binlogio.read_rows`, `binlogio.read_tables`). Each step has a module for the compiled
kernel and one for construct, which is slow and serves as the reference.

    log -> windows -> log_walk -> table_batches | mixed_batches -> rows_reader
"""
