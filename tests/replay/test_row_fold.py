"""Row changes of several parts of a log, combined: images that lack columns, and changes that take effect late."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from binlogio.replay.row_fold import ALWAYS, Layout, RowFold, components
from binlogio.replay.table_history import Detour, Detours, Place

IMAGE = pa.struct([("id", pa.int64()), ("a", pa.string()), ("b", pa.string())])
CHANGES = pa.schema(
    [
        ("before", IMAGE),
        ("after", IMAGE),
        ("before_present", pa.binary()),
        ("after_present", pa.binary()),
        ("layout", pa.int32()),
        ("old", pa.struct([("id", pa.int64())])),
        ("new", pa.struct([("id", pa.int64())])),
    ]
)
Image = dict[str, Any]


def change(before: Image | None, after: Image | None, *, key: int | None = None) -> dict[str, Any]:
    """Return a change with minimal images; `key` is the key after an update whose image lacks it."""

    def bits(image: Image | None) -> bytes | None:
        return None if image is None else bytes([sum(1 << "id a b".split().index(name) for name in image)])

    keys = [None if image is None else {"id": image.get("id", key)} for image in (before, after)]
    return dict(zip(CHANGES.names, (before, after, bits(before), bits(after), 0, *keys), strict=True))


def rows(*batches: list[dict[str, Any]], layout: tuple[int | None, ...] = (0, 1, 2)) -> list[Image]:
    fold = RowFold(["id", "a", "b"], [Layout(layout)], {"b"})
    for batch in batches:
        fold.add(pa.RecordBatch.from_pylist(batch, CHANGES))
    return [row for batch in fold.rows() for row in batch.to_pylist()]


INSERT = change(None, {"id": 1, "a": "x", "b": '{"n": 1}'})


def test_column_that_an_image_lacks_keeps_its_value() -> None:
    """Across batches, and across a change of the key."""
    update, moved = change({"id": 1}, {"a": None}, key=1), change({"id": 1}, {"id": 2})

    assert rows([INSERT], [update, moved]) == [{"id": 2, "a": None, "b": '{"n": 1}'}]


def test_value_is_null_if_no_image_has_it() -> None:
    """The row was there before the changes."""
    assert rows([change({"id": 1}, {"a": "y"}, key=1)]) == [{"id": 1, "a": "y", "b": None}]


def test_deleted_row_and_its_values_are_gone() -> None:
    """A new row with the key has its own values only."""
    again = change(None, {"id": 1, "a": "new"})

    assert rows([INSERT, change({"id": 1}, None), again]) == [{"id": 1, "a": "new", "b": None}]


def test_changes_to_a_document_are_applied_to_it() -> None:
    """The image has SQL functions instead of the document."""
    update = change({"id": 1}, {"b": "JSON_REPLACE(b, '$.n', 2)"}, key=1)

    assert [row["b"] for row in rows([INSERT, update])] == ['{"n": 2}']


def test_column_without_a_known_value_is_null_after_an_image_that_lacks_it() -> None:
    """A generated column, which MariaDB leaves out of images."""
    update = change({"id": 1}, {"a": "y"}, key=1)

    assert rows([INSERT, update], layout=(0, 1, ALWAYS)) == [{"id": 1, "a": "y", "b": None}]


def test_keys_of_one_row_are_in_one_component() -> None:
    """Also if a chain of changes joins them."""
    found = components([((1,), (2,)), ((8,), (9,)), ((3,), (2,))])

    assert found == {(1,): found[1,], (2,): found[1,], (3,): found[1,], (8,): found[8,], (9,): found[8,]}
    assert found[1,] != found[8,]


@pytest.mark.parametrize(
    ("place", "effect"),
    [
        (Place(0, 50), Place(0, 50)),
        (Place(0, 100), None),
        (Place(0, 300), Place(0, 300)),
        (Place(1, 150, 3), Place(2, 20, (50 << 30) + 3)),
        (Place(1, 200), Place(1, 200)),
        (Place(2, 150), Place(2, 150)),
    ],
)
def test_change_takes_effect_at_its_place_late_or_not_at_all(place: Place, effect: Place | None) -> None:
    """Rolled back: two overlapping parts of a log; prepared: a group that is committed in the next log."""
    void = Detour(Place(0, 100), Place(0, 200), None), Detour(Place(0, 150), Place(0, 300), None)
    detours = Detours([*void, Detour(Place(1, 100), Place(1, 200), Place(2, 20))])
    (found,) = detours.of(*(pa.array([number]) for number in place)).to_pylist()

    assert found == (None if effect is None else effect._asdict())
