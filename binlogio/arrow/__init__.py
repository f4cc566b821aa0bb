"""Arrow types of MySQL and MariaDB columns, and encoding of record batches to rows events.

`binlogio.arrow.encode.TableEncoder` builds rows events, `binlogio.arrow.types` maps columns to Arrow types, and
`binlogio.arrow.conversion` converts arrays to the types of other systems. The
internal modules `column_arrays` (with the compiled kernel) and `values` (without) read column values from Arrow arrays.
`binlogio.columnar` decodes rows events to record batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.arrow.conversion import SIGNED, converted, converted_batch
    from binlogio.arrow.encode import Operation
    from binlogio.arrow.types import column_spec

__all__ = ["SIGNED", "Operation", "column_spec", "converted", "converted_batch"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "conversion": "SIGNED converted converted_batch",
            "encode": "Operation",
            "types": "column_spec",
        },
    )
