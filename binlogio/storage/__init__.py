"""Storage: local files and object stores, index files, compressed and encrypted logs. All I/O of the readers is here.

`sources` finds and opens logs; `binlogio.format` parses their bytes. Keys of encrypted logs come from `keyring`.
"""
