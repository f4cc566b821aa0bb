"""Fields that an event may lack: at its end, by a flag, or as padding. None is "not in the file".

Construct parts for all events. Each parses and builds with one definition, and refuses to build values that would be
lost: a value without its flag, a field after a missing one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from construct import Construct, Container, ExplicitError, ValidationError, stream_write

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BytesIO


def remaining(stream: BytesIO) -> int:
    """Bytes of an in-memory stream that are still to be read."""
    at = stream.tell()
    end = stream.seek(0, 2)
    stream.seek(at)
    return end - at


class IfMore(Construct):  # type: ignore[misc]
    """`layout` where the stream has more bytes, None at its end. Part of a field is an error, not an older layout."""

    def __init__(self, layout: Construct) -> None:
        super().__init__()
        self.layout = layout
        self.flagbuildnone = True

    def _parse(self, stream: BytesIO, context: Container, path: str) -> Any:
        return self.layout._parsereport(stream, context, path) if remaining(stream) else None

    def _build(self, obj: Any, stream: BytesIO, context: Container, path: str) -> Any:
        return None if obj is None else self.layout._build(obj, stream, context, path)


class Announced(Construct):  # type: ignore[misc]
    """`layout` if `announced(context)` is True, otherwise None; when building, the value must agree with it."""

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
    """No bytes: a check that the named fields that are present come before those that are None."""

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
    """The rest of the body: None if it is as a server writes it (`usual(size so far, context)`), else its bytes."""

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
