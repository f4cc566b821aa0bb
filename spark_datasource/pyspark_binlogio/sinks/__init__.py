"""Sinks: merge streams of changes into Delta tables and Parquet files. The entry point is `merge`."""
