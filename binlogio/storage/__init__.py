"""Storage: local files and object stores, index files, compressed and encrypted logs. Readers do all their I/O here.

`find_logs` in `sources` finds logs; `LogFile.open` in `log_file` opens them and decompresses and decrypts their bytes;
`load_keyring` in `keyring` loads the keys of encrypted logs. `binlogio.format` parses the bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.storage.index_file import COMPRESSED_SUFFIXES, base_name, log_number, next_log_name, read_index
    from binlogio.storage.keyring import Keyring, load_keyring
    from binlogio.storage.later_logs import LaterLogs
    from binlogio.storage.log_file import LogFile, OpenedLog
    from binlogio.storage.sources import find_logs, find_logs_below
    from binlogio.storage.stored_json import built, is_list_of, read_stored

__all__ = [
    "COMPRESSED_SUFFIXES", "Keyring", "LaterLogs", "LogFile", "OpenedLog", "base_name", "built", "find_logs",
    "find_logs_below", "is_list_of", "load_keyring", "log_number", "next_log_name", "read_index", "read_stored",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "index_file": "COMPRESSED_SUFFIXES base_name log_number next_log_name read_index",
            "keyring": "Keyring load_keyring",
            "later_logs": "LaterLogs",
            "log_file": "LogFile OpenedLog",
            "sources": "find_logs find_logs_below",
            "stored_json": "built is_list_of read_stored",
        },
    )
