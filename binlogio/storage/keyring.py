r"""Keyrings: loads the keys of encrypted binary logs from the key files of MySQL and MariaDB.

The ciphers are in `binlogio.storage.encryption`. Error messages and `repr` never contain a key.

    mysql   := {"version": "1.0", "elements": [element, ...]}
    element := {"user": "", "data_id": key_id, "data_type": "AES", "data": hex, ...}
    mariadb := (number ";" hexkey anything? "\n" | "#" anything "\n" | "\n")*

Source: components/keyrings/common/json_data/json_reader.cc; MariaDB plugin/file_key_management/parser.cc.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, Final, Union

from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.frozen import dataclass

_AES_KEY_SIZES: Final = (16, 24, 32)
_MAX_KEYRING_SIZE: Final = 1 << 24  # bytes; the limit of MariaDB is 1 MiB


@dataclass(frozen=True, slots=True)
class MysqlKeyring:
    """The keys of a MySQL server by their ids.

    The ids of the keys of binary logs are `MySQLReplicationKey_<server uuid>_<number>`.
    """

    keys: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def from_file(cls, source: str | os.PathLike[str]) -> MysqlKeyring:
        """Load the JSON file of component_keyring_file, or a JSON object of key ids and hex keys.

        `source` is a path, or the text of the file.

        Raises:
            OSError: the file cannot be read.
            BinlogFormatError: it is not a keyring, or a keyring of MariaDB.
        """
        keyring = load_keyring(source)
        if isinstance(keyring, MysqlKeyring):
            return keyring
        raise BinlogFormatError("wrong vendor of the keyring", expected="a MySQL keyring", found="a MariaDB keyring")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object] | Mapping[int, object]) -> MysqlKeyring:
        """Return the keyring of a mapping: the parsed JSON of component_keyring_file, or keys (hex or bytes) by key id.

        Raises:
            BinlogFormatError: an element has no id, or a key is not valid.
        """
        values: Mapping[Any, object] = mapping
        if "elements" not in values:
            return cls({str(key_id): _to_bytes(value, str(key_id)) for key_id, value in values.items()})
        elements = values["elements"]
        if not isinstance(elements, list):
            raise BinlogFormatError("not a valid keyring", field="elements", expected="a JSON array")
        keys: dict[str, bytes] = {}
        for index, element in enumerate(elements):
            key_id = element.get("data_id") if isinstance(element, dict) else None
            if not isinstance(key_id, str):
                raise BinlogFormatError("an element of the keyring has no id", field=f"elements[{index}].data_id")
            if not element.get("user"):  # the server's own keys have no user
                keys[key_id] = _to_bytes(element.get("data"), key_id)
        return cls(keys)


@dataclass(frozen=True, slots=True)
class MariadbKeys:
    """The keys of a MariaDB server by their numbers; binary logs are encrypted with key 1."""

    keys: Mapping[int, bytes] = field(repr=False)

    @classmethod
    def from_file(cls, source: str | os.PathLike[str]) -> MariadbKeys:
        """Load the key file of file_key_management; `source` is a path, or the text of the file.

        Raises:
            OSError: the file cannot be read.
            BinlogFormatError: it is not a key file, or a keyring of MySQL.
            UnsupportedFeature: the key file is encrypted.
        """
        keyring = load_keyring(source)
        if isinstance(keyring, MariadbKeys):
            return keyring
        raise BinlogFormatError("wrong vendor of the keyring", expected="a MariaDB keyring", found="a MySQL keyring")

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object] | Mapping[int, object]) -> MariadbKeys:
        """Return the keyring of a mapping from key number to key (hex or bytes).

        Raises:
            BinlogFormatError: a key number is invalid, or a key is not an AES key.
        """
        keys: dict[int, bytes] = {}
        for name, value in mapping.items():
            if not _is_number(name):
                raise BinlogFormatError("the key id is not a number", expected="1 to 10 digits", found=name)
            key = _to_bytes(value, str(name))
            if len(key) not in _AES_KEY_SIZES:
                raise BinlogFormatError(
                    "invalid size of an AES key",
                    field=f"key {name}",
                    expected="16, 24 or 32 bytes",
                    found=f"{len(key)} bytes",
                )
            keys[int(name)] = key
        return cls(keys)

    @classmethod
    def from_text(cls, text: str) -> MariadbKeys:
        """Parse a key file with lines `number;hexkey`.

        As in the server, lines that begin with `#` and text after a key are comments.

        Raises:
            BinlogFormatError: a line is invalid, or a key is not an AES key.
        """
        keys: dict[int, object] = {}
        for number, line in enumerate(text.split("\n"), start=1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            found = re.match(r"\s*([0-9]{1,10});((?:[0-9A-Fa-f]{2})+)(?![0-9A-Fa-f])", line)
            if found is None:
                raise BinlogFormatError(
                    "invalid line in the key file", field=f"line {number}", expected="number;hexkey"
                )
            keys[int(found[1])] = found[2]
        return cls.from_mapping(keys)


Keyring = MysqlKeyring | MariadbKeys
KeyringSource = Union[str, "os.PathLike[str]", Mapping[str, object], Mapping[int, object], Keyring]
"""A file, a mapping from key id to key, or a loaded keyring."""


def load_keyring(source: KeyringSource) -> Keyring:
    """Load a keyring of MySQL or MariaDB; the content determines the vendor.

    A string that begins like a JSON object or a key file is the text of a keyring; any other string is a path. A
    mapping contains keys, in hex or bytes, by key id; a keyring whose key ids are numbers is one of MariaDB.

    Raises:
        OSError: the file cannot be read.
        BinlogFormatError: the keyring is invalid.
        UnsupportedFeature: the format of the keyring is not supported; it must be converted.
    """
    if isinstance(source, (MysqlKeyring, MariadbKeys)):
        return source
    if isinstance(source, Mapping):
        return _from_mapping(source)
    if isinstance(source, str) and re.match(r"\s*(\{|#[^\n]*\n|[0-9]+;)", source):
        return _from_text(source)
    try:
        return _from_text(_read_text(Path(source)))
    except BinlogError as exc:
        exc.locate(file=os.fspath(source))
        raise


def _read_text(path: Path) -> str:
    with path.open("rb") as file:
        data = file.read(_MAX_KEYRING_SIZE + 1)
    if data.startswith(b"Salted__"):
        raise UnsupportedFeature(
            "the key file is encrypted (file_key_management_filekey)", hint="decrypt it with openssl enc -d"
        )
    if data.startswith(b"Keyring file version"):
        raise UnsupportedFeature(
            "the keyring has the format of the plugin keyring_file, which is not supported",
            hint="convert it to component_keyring_file with mysql_migrate_keyring",
        )
    if len(data) > _MAX_KEYRING_SIZE:
        raise _not_a_keyring()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise _not_a_keyring() from exc


def _from_text(text: str) -> Keyring:
    if not text.lstrip().startswith("{"):
        keys = MariadbKeys.from_text(text)
        if not keys.keys:
            raise _not_a_keyring()
        return keys
    try:
        mapping = json.loads(text)
    except (ValueError, RecursionError):
        raise _not_a_keyring() from None  # json's error contains the whole text, with the keys
    return _from_mapping(mapping)


def _from_mapping(mapping: Mapping[str, object] | Mapping[int, object]) -> Keyring:
    if not mapping:
        raise _not_a_keyring()
    if all(_is_number(name) for name in mapping):
        return MariadbKeys.from_mapping(mapping)
    return MysqlKeyring.from_mapping(mapping)


def _is_number(name: object) -> bool:
    return re.fullmatch("[0-9]{1,10}", str(name)) is not None


def _not_a_keyring() -> BinlogFormatError:
    return BinlogFormatError(
        "not a valid keyring",
        expected="the JSON of component_keyring_file, or lines number;hexkey of file_key_management",
    )


def _to_bytes(value: object, name: str) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    try:
        return bytes.fromhex(value if isinstance(value, str) else "?")
    except ValueError as exc:
        raise BinlogFormatError("the key is not hexadecimal", field=f"key {name}") from exc
