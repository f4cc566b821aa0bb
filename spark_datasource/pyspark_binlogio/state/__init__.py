"""Replay on Spark: the rows of a table at a moment, from logs or from data frames.

`table_replay` divides the life of a table into stages with one key, `rows` computes the rows of a stage, by full
images or with `fold` by partial ones, and `frames` takes the changes from a data frame. The public entry is
`pyspark_binlogio.replay`; a package of that name would replace the function.
"""
