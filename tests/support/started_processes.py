"""Programs of the tests in processes of their own, and the logs that a stream of Spark or an export still needs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from binlogio.archive.export.ledger import LEDGER_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def started(
    script: Path, *arguments: str, python: str = sys.executable, path: Sequence[str] = ()
) -> Iterator[subprocess.Popen[bytes]]:
    """Provide a process in a session of its own, which is killed in the end with all that it has started.

    `python` may be that of an environment with another PySpark, `path` its search path instead of that of this process.
    """
    search = path or [*dict.fromkeys(entry for entry in sys.path if entry)]
    process = subprocess.Popen(
        [python, str(script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(search), "PYSPARK_PYTHON": python},
        start_new_session=True,
    )
    try:
        with process:
            try:
                yield process
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
    finally:
        process.wait()


def no_longer_needed(checkpoint: Path) -> str | None:
    """Return the log before which a query will read nothing again: its last batch, which may come again, begins there.

    None where it has read none. The checkpoint of an archive or of an export is its ledger.
    """
    if (checkpoint / LEDGER_NAME).exists():
        return max(str(one["file"]) for one in json.loads((checkpoint / LEDGER_NAME).read_text())["logs"])
    batches = sorted(int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*"))
    if len(batches) < 2:
        return None
    offset = json.loads((checkpoint / "offsets" / str(batches[-2])).read_text().splitlines()[-1])
    return Path(offset["file"]).name
