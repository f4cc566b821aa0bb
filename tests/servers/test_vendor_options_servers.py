"""Every option of the vendors' tools is in the table of docs/command_line.md, and what it says of it is so."""

from __future__ import annotations

import re
from typing import Final

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from corpus import FIXTURES, ROOT
from real_servers import vendor

pytestmark = pytest.mark.server
TEXT: Final = (ROOT / "docs" / "command_line.md").read_text(encoding="utf-8")
ROWS: Final = [line.split(" | ") for line in TEXT.split("## Options of")[1].splitlines() if line.startswith("| `")]
GROUPS: Final = ("--ssl", "--tls", "--debug", "--defaults", "--stop-never", "--server-public-key", "--get-server")
ALWAYS: Final = {"--help", "--version", "--verbose"}
PLUGINS: Final = {"--plugin-dir", "--default-auth"}
CONNECTION: Final = {
    "--host", "--user", "--password", "--port", "--socket", "--read-from-remote-server", "--read-from-remote-master",
    "--to-last-log", "--compress", "--compression-algorithms", "--zstd-compression-level", "--bind-address",
    "--connection-server-id",
}  # fmt: skip


@pytest.mark.parametrize("tool", [("mysql", "mysqlbinlog"), ("mariadb", "mariadb-binlog")], ids=lambda tool: tool[1])
def test_every_option_of_a_vendor_is_in_the_table(tool: tuple[str, str]) -> None:
    kind, program = tool
    text = vendor(kind).run(program, "--no-defaults", "--help").stdout.decode()
    options = set(re.findall(r"^  (?:-\S, )?(--[a-z0-9-]+)", text, re.MULTILINE)) - ALWAYS - PLUGINS - CONNECTION

    assert len(options) > 20
    assert {name for name in options if not name.startswith(GROUPS) and f"`{name}`" not in TEXT} == set()


def test_what_is_accepted_or_refused_is_as_the_table_says() -> None:
    log = str(FIXTURES / "mysql97" / "incident" / "binlog.000001")
    accepted = (
        "--no-defaults",
        "--base64-output=decode-rows",
        "-F",
        "-c",
        "--open-files-limit=9",
        "-f",
        "-s",
        "-H",
        "--rewrite-db=a->b",
    )
    for option in accepted:
        assert CliRunner().invoke(cli, ["dump", option, log]).exit_code == 0, option
    for option in ("-R", "--host=x", "--raw", "--flashback", "--ssl-ca=x"):
        result = CliRunner().invoke(cli, ["dump", option, log])
        assert (result.exit_code, "is not supported: " in result.stderr) == (2, True), option


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        (("mysql", "mysqlbinlog"), ("mysql97/incident/binlog.000001", "mysql97/incident/binlog.000002")),
        (("mysql", "mysqlbinlog"), ("mysql97/compressed/binlog.000001",)),
        (("mariadb", "mariadb-binlog"), ("mariadb1011/incident/binlog.000001", "mariadb1011/incident/binlog.000002")),
    ],
    ids=lambda value: value[0].replace("/", "-"),
)
def test_an_offset_skips_the_events_that_the_vendors_skip(tool: tuple[str, str], names: tuple[str, ...]) -> None:
    """Their tools show the format descriptions of logs that are skipped as well."""
    kind, program = tool
    programs = vendor(kind)
    with programs.folder("offset") as folder:
        logs = [folder / name.rpartition("/")[2] for name in names]
        for log, name in zip(logs, names, strict=True):
            log.write_bytes((FIXTURES / name).read_bytes())
        inside = [programs.inside(log) for log in logs]
        for count in (1, 2, 5, 9, 43, 46):
            theirs = programs.run(program, "--no-defaults", "-o", str(count), *inside).stdout.decode(errors="replace")
            ours = CliRunner().invoke(cli, ["dump", "--offset", str(count), *map(str, logs)]).stdout
            expected, found = (
                [place for place in re.findall(r"^# at (\d+)$", text, re.MULTILINE) if place != "4"]
                for text in (theirs, ours)
            )
            if "compressed" in names[0]:  # events of a payload have its end as their place there, and no line here
                expected, found = [sorted(set(places), key=int)[:1] for places in (expected, found)]
            assert found == expected, count
            assert found
