"""The only doors to the disk: local files and object stores, index files, compressed and encrypted logs.

`sources` finds and opens logs; the bytes that it gives are read in `binlogio.format`. Keys of encrypted logs come from `keyring`.
"""
