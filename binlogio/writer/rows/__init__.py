"""Row images and rows events of statements: columns of the images, their bytes, and the writeset.

`RowsBuilder` turns the row changes of a statement into frames for its caches. `RowEncoder` encodes values, and
`WriteSetBuilder` hashes the keys that a transaction changes.
"""
