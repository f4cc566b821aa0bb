"""Sinks: merge streams of changes into Delta tables and Parquet files.

`merge` has the function for `foreachBatch` and the order of its steps, `delta_table` and `parquet_table` each have one
format. The public entry is `pyspark_binlogio.merge_into`.
"""
