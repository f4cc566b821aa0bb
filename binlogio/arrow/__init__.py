"""Arrow arrays of MySQL and MariaDB columns, and rows events from record batches.

`binlogio.arrow.encode.TableEncoder` builds rows events, and `binlogio.arrow.types` gives the Arrow type of each column.
`column_arrays` (with the compiled kernel) and `values` (without) read the values of a column from Arrow arrays, and are
internal. `binlogio.columnar` does the other direction.
"""
