"""Every real file parses to typed events and rebuilds to the same bytes; and is framed as its own server lists it.

What a server compressed is compared uncompressed as well, because another zlib or zstd may pack the same bytes
otherwise. The counts are printed when the run ends.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from binlogio.constants import ENCRYPTED_MAGIC, ChecksumAlgorithm, EventType
from binlogio.errors import BinlogError
from binlogio.events import codec_for
from binlogio.events.base import UnknownEvent, event_name
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.decoder import Decoder
from binlogio.format.encoder import Encoder
from binlogio.format.framing import EventFrame, EventFramer, Framing
from binlogio.storage.compression import compress_zstd, decompress_zstd
from corpus import Case, CorpusFile, cases, files, frames_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio.events.mariadb import StartEncryptionEvent
    from binlogio.format.framing import Decryptor

COMPRESSED: Final = {kind for kind in EventType if "COMPRESSED" in kind.name}
AURORA_PADDING: Final = 100
ENCRYPTION_HEADER_SIZE: Final = 512
MAX_SIZE: Final = 32 << 20  # the benchmark files are longer, and hold nothing else
WHOLE: Final = [file for file in files() if not file.damaged]
DAMAGED: Final = [file for file in files() if file.damaged]


def _plain_bytes(file: CorpusFile) -> bytes:
    data = file.path.read_bytes()
    if data.startswith(b"\x28\xb5\x2f\xfd"):
        data = pa.CompressedInputStream(pa.BufferReader(data), "zstd").read(MAX_SIZE)
    if data.startswith(ENCRYPTED_MAGIC):
        from binlogio.storage.encryption import load_keyring, open_mysql  # noqa: PLC0415 - needs an extra

        assert file.keys is not None
        cipher = open_mysql(data[:ENCRYPTION_HEADER_SIZE], load_keyring(file.keys))
        data = cipher.decrypt(0, data[ENCRYPTION_HEADER_SIZE:])
    return data


def _decryptor_for(file: CorpusFile) -> Callable[[StartEncryptionEvent], Decryptor]:
    """Return the key beside an encrypted file.

    Nothing to do after START_ENCRYPTION_EVENT where a tool has decrypted the rest.
    """
    if not file.encrypted or file.keys is None:
        return lambda event: lambda offset, raw: raw
    from binlogio.storage.encryption import load_keyring, mariadb_decryptor  # noqa: PLC0415 - needs an extra

    keyring = load_keyring(file.keys)
    return lambda event: mariadb_decryptor(event, keyring)


class _Walk:
    """Frames of a file, each with the plain bytes that it was cut from."""

    def __init__(self, file: CorpusFile) -> None:
        self.data = _plain_bytes(file)
        self.plain: dict[int, bytes] = {}
        decryptor_for = _decryptor_for(file)

        def remembering(event: StartEncryptionEvent) -> Decryptor:
            decrypt = decryptor_for(event)
            return lambda offset, raw: self.plain.setdefault(offset, decrypt(offset, raw))

        self.framer = EventFramer(decryptor_for=remembering)
        self.framer.feed(self.data)
        if len(self.data) < MAX_SIZE:
            self.framer.finish()

    def __iter__(self) -> Any:
        while not isinstance(frame := self.framer.next_frame(), Framing):
            yield frame, self.plain.get(frame.header.offset, self.data[frame.header.offset : frame.end])


@pytest.mark.parametrize("file", WHOLE, ids=lambda file: file.id)
def test_file_rebuilds_to_the_same_bytes(file: CorpusFile, record_property: Callable[[str, object], None]) -> None:
    """Bytes, frames, typed events, bytes again: the same, 100 %, and with log_pos computed from the offset as well."""
    counts: Counter[str] = Counter()
    decoder, encoder = Decoder(decompress=decompress_zstd), Encoder()
    end = 4
    for frame, raw in (walk := _Walk(file)):
        name = event_name(frame.header.type_code)
        event, *inner = decoder.decode(frame)
        rebuilt = encoder.encode(event)

        assert frame.header.offset == end
        if rebuilt == raw:
            counts[f"{name}|identical"] += 1
        else:
            assert frame.header.type_code in COMPRESSED, (name, frame.header.offset)
            assert _plain_content(rebuilt, frame) == _plain_content(raw, frame)
            counts[f"{name}|same content"] += 1
        assert not isinstance(event, UnknownEvent) or event.header.type_code == AURORA_PADDING
        if frame.header.log_pos == frame.end and rebuilt == raw:
            assert encoder.encode_at(event, frame.header.offset) == raw
        if isinstance(event, TransactionPayloadEvent):
            counts += _inner_events_rebuild(event, inner, frame)
        end = frame.end

    assert end == len(walk.data) or len(walk.data) == MAX_SIZE
    assert counts
    record_property("golden", json.dumps(counts))


def _plain_content(raw: bytes, frame: EventFrame) -> Any:
    """Return the event with what was compressed uncompressed."""
    body = raw[frame.context.header_size : len(raw) - 4 * frame.context.has_checksum]
    return codec_for(frame.header.type_code).parse(frame.header, body, frame.context)


def _inner_events_rebuild(event: TransactionPayloadEvent, inner: list[Any], frame: EventFrame) -> Counter[str]:
    encoder = Encoder(replace(frame.context, checksum_algorithm=ChecksumAlgorithm.OFF))
    opened = b"".join(decompress_zstd(event.payload))
    rebuilt = [encoder.encode(one) for one in inner]

    assert b"".join(rebuilt) == opened
    assert b"".join(decompress_zstd(compress_zstd(opened, 3))) == opened
    assert len(opened) == event.uncompressed_size
    return Counter(f"{event_name(one.header.type_code)}|in payloads" for one in inner)


@pytest.mark.parametrize("file", DAMAGED, ids=lambda file: file.id)
def test_damaged_file_gives_its_whole_events_and_then_says_what_is_wrong(file: CorpusFile) -> None:
    """A cut or changed file: BinlogError, or a torn tail where it was in use."""
    walk = _Walk(file)
    reason: object = None
    try:
        end = 4
        for frame, _ in walk:
            end = frame.end
        assert walk.framer.torn_tail is not None or end == len(walk.data)
        reason = walk.framer.torn_tail
    except BinlogError as exc:
        reason = exc

    assert reason is not None or file.path.name.endswith("truncated_magic")


@pytest.mark.parametrize("case", [case for case in cases() if case.keys is None], ids=lambda case: case.id)
def test_events_are_where_the_server_lists_them(case: Case) -> None:
    """SHOW BINLOG EVENTS of the server that wrote the file: same types, same positions, same server ids."""
    listed = case.load("events.json")
    if listed is None:
        pytest.skip("the case has no events.json")
    for name, rows in listed.items():
        if not (case.folder / name).exists():
            continue
        ours = list(_listed((case.folder / name).read_bytes()))
        theirs = [
            (row["pos"], row["server_id"], row["type"].lower().replace(" ", "_"))
            for row in rows
            if row["pos"] < (case.folder / name).stat().st_size  # in_use: copied before its last event was written
            or row["pos"] == row["end_pos"]
        ]

        assert theirs == ours


def _listed(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield position, server id and name of each event, as the statement shows them: inside a payload, its end."""
    decoder = Decoder(decompress=decompress_zstd)
    for frame in frames_of(data):
        for event in decoder.decode(frame):
            header = event.header
            yield (
                frame.header.offset if header.inner is None else frame.end,
                header.server_id,
                _shown_name(header.type_code),
            )


def _shown_name(type_code: int) -> str:
    """Return the name in SHOW BINLOG EVENTS, in small letters."""
    name = event_name(type_code).lower().removeprefix("mariadb_").replace("format_description", "format_desc")
    if type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT:
        return "update_rows_partial"
    return name if type_code == EventType.GTID_TAGGED_LOG_EVENT else name.replace("_log", "").replace("_event", "")
