"""Construct elements for optional fields: at the end of an event, controlled by a flag, or padding.

The value of a missing field is None. Each element both parses and builds. Building refuses values that would not be
parsed back: a value without its flag, or a field after a missing one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from construct import Construct, Container, ExplicitError, ValidationError, stream_write

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BytesIO


def remaining(stream: BytesIO) -> int:
    """Return the number of unread bytes of an in-memory stream; its position does not change."""
    at = stream.tell()
    end = stream.seek(0, 2)
    stream.seek(at)
    return end - at


class IfMore(Construct):  # type: ignore[misc]
    """`layout` if the stream has more bytes, None at its end. An incomplete field is an error."""

    def __init__(self, layout: Construct) -> None:
        super().__init__()
        self.layout = layout
        self.flagbuildnone = True

    def _parse(self, stream: BytesIO, context: Container, path: str) -> Any:
        return self.layout._parsereport(stream, context, path) if remaining(stream) else None

    def _build(self, obj: Any, stream: BytesIO, context: Container, path: str) -> Any:
        return None if obj is None else self.layout._build(obj, stream, context, path)


class Announced(Construct):  # type: ignore[misc]
    """`layout` if `announced(context)` is true, otherwise None. Building refuses a value that disagrees with it."""

    def __init__(self, announced: Callable[[Container], object], layout: Construct) -> None:
        super().__init__()
        self.announced = announced
        self.layout = layout
        self.flagbuildnone = True

    def _parse(self, stream: BytesIO, context: Container, path: str) -> Any:
        return self.layout._parsereport(stream, context, path) if self.announced(context) else None

    def _build(self, obj: Any, stream: BytesIO, context: Container, path: str) -> Any:
        if bool(self.announced(context)) == (obj is None):
            wrong = "a value is missing that the flags announce" if obj is None else "no flag announces this value"
            raise ValidationError(wrong, path=path)
        return None if obj is None else self.layout._build(obj, stream, context, path)


class OptionalFieldOrder(Construct):  # type: ignore[misc]
    """No bytes: when building, checks that no named field without a value (None) precedes one that has a value."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names
        self.flagbuildnone = True

    def _parse(self, stream: BytesIO, context: Container, path: str) -> None:
        return None

    def _build(self, obj: None, stream: BytesIO, context: Container, path: str) -> None:
        missing = ""
        for name in self.names:
            if context[name] is None:
                missing = missing or name
            elif missing:
                raise ExplicitError(f"{name} cannot be written without {missing}, which precedes it", path=path)


class Trailing(Construct):  # type: ignore[misc]
    """The rest of the body: None if it is equal to `usual(bytes before it, context)`, otherwise its bytes.

    `usual` returns what a server writes there. A shorter rest is an error.
    """

    def __init__(self, usual: Callable[[int, Container], bytes]) -> None:
        super().__init__()
        self.usual = usual
        self.flagbuildnone = True

    def _parse(self, stream: BytesIO, context: Container, path: str) -> bytes | None:
        usual = self.usual(stream.tell(), context)
        rest = stream.read()
        if len(rest) < len(usual):
            raise ValidationError(f"{len(usual)} bytes expected at the end, {len(rest)} found", path=path)
        return None if rest == usual else rest

    def _build(self, obj: bytes | None, stream: BytesIO, context: Container, path: str) -> bytes:
        usual = self.usual(stream.tell(), context)
        data = usual if obj is None else obj
        if len(data) < len(usual):
            raise ValidationError(f"{len(usual)} bytes expected at the end, {len(data)} given", path=path)
        stream_write(stream, data, len(data), path)
        return data
