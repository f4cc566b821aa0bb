"""Arrow arrays of MySQL and MariaDB columns, and rows events from record batches.

`types` maps columns to Arrow types, `cells` and `values` read column values from Arrow arrays, `encode` builds rows
events of record batches.
"""
