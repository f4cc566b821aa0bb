"""The value of a user variable in the log as SQL: an expression after `SET @name :=` with its type and collation.

Handles the values of USER_VAR_EVENT. Text and bytes are hexadecimal, so no quote, backslash or NUL of a log is copied
into SQL.

    value := NULL | double, always with an exponent | CAST(integer AS SIGNED | UNSIGNED)
           | decimal, always with a point
           | _charset x'bytes' COLLATE collation

Source: sql/log_event.cc, User_var_log_event::print, User_var_log_event::do_apply_event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError
from binlogio.events.statement_context import UserVarType
from binlogio.schema.collations import collation_name
from binlogio.values.charsets import BINARY_COLLATION, charset_of
from binlogio.values.decimal import decimal_size, decimal_text, decode_decimal

if TYPE_CHECKING:
    from binlogio.events.statement_context import UserVarEvent

_HEAD: Final = 2  # precision and scale


def user_variable_value(event: UserVarEvent) -> str:
    """Return the SQL of the value.

    Raises:
        BinlogFormatError: a DECIMAL is damaged.
        UnsupportedFeature: no server has the collation.
    """
    if event.value is None:
        return "NULL"
    number = event.number
    if isinstance(number, float):
        text = repr(number)
        return text if "e" in text else f"{text}e0"
    if isinstance(number, int):
        return f"CAST({number} AS {'UNSIGNED' if event.is_unsigned else 'SIGNED'})"
    if event.type == UserVarType.DECIMAL_RESULT:
        return _decimal(event.value)
    charset = charset_of(event.collation)
    if charset is None or event.collation in (None, BINARY_COLLATION):
        return f"_binary x'{event.value.hex()}'"
    return f"_{charset.name} x'{event.value.hex()}' COLLATE {collation_name(event.collation)}"


def _decimal(value: bytes) -> str:
    """Precision, scale, and the packed digits."""
    if len(value) < _HEAD:
        raise BinlogFormatError("DECIMAL value without precision and scale", field="user variable", found=len(value))
    precision, scale = value[0], value[1]
    digits = decimal_text(decode_decimal(value[_HEAD : _HEAD + decimal_size(precision, scale)], precision, scale))
    return digits if scale else f"{digits}."
