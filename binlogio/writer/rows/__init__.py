"""Row images and rows events of statements: which columns an image has, their bytes, and the writeset.

`RowsBuilder` turns the row changes of a statement into the frames of its caches. `RowEncoder` packs values,
and `WriteSetBuilder` hashes the keys that a transaction changes.
"""
