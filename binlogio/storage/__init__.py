"""Storage: local files and object stores, index files, compressed and encrypted logs. All I/O of the readers is here.

`find_logs` in `sources` finds logs, and `LogFile.open` in `log_file` opens them, decompressed and decrypted;
`load_keyring` in `keyring` loads the keys of encrypted logs. `binlogio.format` parses their bytes.
"""
