"""Uses our logs as relay logs of a real replica: writes files and index to the data folder, waits for the appliers.

A log ends with FINISHED, which creates a table. When the table exists, everything before is applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from real_servers import Instance

FINISHED: Final = "CREATE TABLE finished (id INT PRIMARY KEY)"
STATE: Final = (
    "SELECT last_error_message FROM performance_schema.replication_applier_status_by_worker"
    " WHERE last_error_number <> 0 UNION ALL"
    " SELECT last_error_message FROM performance_schema.replication_applier_status_by_coordinator"
    " WHERE last_error_number <> 0;"
    "SELECT 'finished' FROM information_schema.tables WHERE table_name = 'finished'; DO SLEEP(0.3);"
)

IDLE_POLLS: Final = 300  # number of polls without progress; a poll takes 0.3 s or more
# Progress of a replica: the last transaction of each worker, the rows that InnoDB and MyISAM have written.
APPLIED: Final = (
    "SELECT relay_log_name, relay_log_pos FROM mysql.slave_worker_info;"
    "SHOW GLOBAL STATUS WHERE variable_name IN ('Handler_write', 'Handler_update', 'Handler_delete', 'Handler_commit',"
    " 'Com_insert', 'Com_update', 'Com_delete');"
)
WHY: Final = (
    "SHOW FULL PROCESSLIST; SELECT * FROM performance_schema.replication_applier_status_by_worker;"
    "SELECT * FROM performance_schema.data_lock_waits;"
    "SELECT object_schema, object_name, lock_type, lock_status, owner_thread_id FROM performance_schema.metadata_locks;"
)


def place(server: Instance, logs: Iterable[bytes], name: str = "relay") -> None:
    """Write `logs` as relay logs with the base name `name`, numbered from 1."""
    files = {f"{name}.{number:06}": data for number, data in enumerate(logs, 1)}
    for file, data in files.items():
        (server.data / file).write_bytes(data)
    (server.data / f"{name}.index").write_text("".join(f"./{file}\n" for file in files))
    server.vendor.run("chown", "mysql", *(f"/{server.data.name}/{file}" for file in (*files, f"{name}.index")))


def apply(server: Instance, logs: Iterable[bytes], channel: str = "") -> None:
    """Apply `logs` completely in the channel `channel` of a MySQL replica started with `--relay-log=relay`."""
    name = f"relay-{channel}" if channel else "relay"
    place(server, logs, name)
    server.sql(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='none', RELAY_LOG_FILE='{name}.000001', RELAY_LOG_POS=4"
        f" FOR CHANNEL '{channel}'; START REPLICA SQL_THREAD FOR CHANNEL '{channel}';"
    )
    applied, idle = "", 0
    while idle < IDLE_POLLS:
        found = server.sql(STATE)
        if found:
            assert found == "finished\n", f"channel {channel!r}: {found}{server.sql(WHY)}"
            return
        before, applied = applied, server.sql(APPLIED)
        idle = 0 if applied != before else idle + 1
    pytest.fail(f"the replica has stopped to apply its relay log in channel {channel!r}:\n{server.sql(WHY)}")
