"""Every command shows times in the zone of `--time-zone`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from corpus import MYSQL

if TYPE_CHECKING:
    from pathlib import Path

LOG: Final = str(MYSQL / "incident" / "binlog.000002")
SHOWN: Final = {
    ("dump",): "#261123 07:36:28",
    ("dump", "--json"): "2026-11-23T07:36:28+05:00",
    ("grep", "id > 0"): "2026-11-23 07:36:28 UTC+05:00",
    ("grep", "id > 0", "--json"): "2026-11-23T07:36:28+05:00",
    ("history", "shop.orders", "1004"): "2026-11-23 07:36:28 UTC+05:00",
    ("history", "shop.orders", "1004", "--json"): "2026-11-23T07:36:28+05:00",
    ("sql", "SELECT max(timestamp) FROM orders"): "2026-11-23 07:36:28+05",
    ("stats",): "to 2026-11-23 07:36:28, UTC+05:00",
    ("stats", "--html", "OUT"): "to 2026-11-23 07:36:28, UTC+05:00",
    ("undo", "--preview", "--on-statement", "skip"): "2026-11-23 07:36:28 UTC+05:00",
}


@pytest.mark.parametrize("command", SHOWN, ids=" ".join)
def test_times_are_shown_in_the_chosen_zone(command: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    arguments = [str(out) if one == "OUT" else one for one in command]
    result = CliRunner().invoke(cli, [*arguments, "--time-zone", "+05:00", LOG])
    text = out.read_text() if "OUT" in command else result.stdout

    assert result.exit_code == 0, result.stderr
    assert SHOWN[command] in text
