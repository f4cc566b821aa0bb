"""Streams of changes merged into tables that others keep: Delta, Parquet. `merge` is the way in."""
