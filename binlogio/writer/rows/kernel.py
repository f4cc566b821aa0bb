"""Access to the compiled kernel for the writer: row images, rows events, groups.

Without the kernel construct encodes the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from binlogio.implementation import is_compiled

if TYPE_CHECKING:
    from binlogio._kernel.row_encoder import EventBuffer
    from binlogio.rows.plan import TablePlan


@dataclass(frozen=True, slots=True)
class WriterKernel:
    """Functions of `binlogio._kernel.row_encoder`, `row_packer` of `binlogio.rows.packing`, and a buffer factory."""

    rows_frame: Callable[..., bytes]
    gtid_parts: Callable[..., tuple[bytes, bytes]]
    transaction: Callable[..., bytes]
    stamped: Callable[..., bytes]
    row_packer: Callable[[TablePlan], Any]
    new_buffer: Callable[..., EventBuffer]


def writer_kernel() -> WriterKernel | None:
    """Return the kernel's functions; None where construct does the work.

    Raises:
        UnsupportedFeature: the environment asks for a kernel that is not there.
    """
    if not is_compiled():
        return None
    from binlogio._kernel import row_encoder  # noqa: PLC0415 - missing if it was not compiled
    from binlogio._kernel.row_encoder import EventBuffer  # noqa: PLC0415
    from binlogio.rows.packing import row_packer  # noqa: PLC0415

    return WriterKernel(
        row_encoder.rows_frame,
        row_encoder.gtid_parts,
        row_encoder.transaction,
        row_encoder.stamped,
        row_packer,
        EventBuffer,
    )
