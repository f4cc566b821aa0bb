"""Columns of MySQL and MariaDB as Arrow arrays, and back.

`types` says which Arrow type a column has, `cells` and `values` make values of it, `encode` makes rows events of record batches.
"""
