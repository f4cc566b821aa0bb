"""Arrow arrays of MySQL and MariaDB columns, and rows events from record batches.

`binlogio.arrow.encode.TableEncoder` builds rows events, and `binlogio.arrow.types` gives the Arrow type of each column.
`column_arrays` (with the compiled kernel) and `values` (without) read the values of a column from Arrow arrays, and are
internal. `binlogio.columnar` does the other direction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.arrow.encode import Operation
    from binlogio.arrow.types import column_spec

__all__ = ["Operation", "column_spec"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "encode": "Operation",
            "types": "column_spec",
        },
    )
