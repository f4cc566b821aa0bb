"""The row changes of a rows event, as a target that writes rows takes them.

Knows that JSON diffs become documents where the before image has the document. Knows no target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binlogio.rowimage.image import decode_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.replay.transactions import RowsStep

Image = tuple[Any, ...]
Change = tuple[Image | None, Image | None]
"""Before and after image; a value for each column, ABSENT where the image does not have it."""


def row_changes(step: RowsStep) -> Iterator[Change]:
    """The changes of a step.

    Raises:
        ReplayError: the log does not say enough of the table.
        BinlogFormatError: an image does not fit its table.
    """
    if step.plan is None:
        raise step.refusal if step.refusal is not None else AssertionError(step)
    for change in decode_rows(step.event, step.plan):
        after = change.applied()
        yield change.before.values if change.before else None, after.values if after else None
