"""What a writer logs of transactions and their caches."""

from __future__ import annotations

from threading import Thread

import pytest

from binlogio.errors import LoggingError, WriterStateError
from binlogio.gtid import GtidSet
from binlogio.writer import BinlogWriter
from memory_storage import MemoryStorage
from written_logs import (
    STMT,
    T2,
    TRX,
    UUID,
    events_of,
    insert,
    logged,
    run,
    shape,
    writer,
)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ("T", TRX),
        ("N", STMT),
        ("M", [*STMT, *TRX]),
        ("B T T C", ["BEGIN", "map t", "WriteRows", "map t", "WriteRows", "Xid"]),
        ("B T R", []),
        ("B T", []),
        ("B N R", STMT),
        ("B N T C", [*STMT, *TRX]),
        ("B T N C", [*STMT, *TRX]),
        ("B T N R", STMT),
        ("B M T C", [*STMT, "BEGIN", "map t", "WriteRows", "map t", "WriteRows", "Xid"]),
        ("B T B T C", [*TRX, *TRX]),
        ("B T D R", [*TRX, "DROP TABLE x"]),
        ("B C R C", []),
        ("T R", TRX),
        ("E", ["BEGIN", "map e", "WriteRows", "COMMIT"]),
        ("U", [*STMT, "BEGIN", "map t", "COMMIT"]),
    ],
)
def test_each_cache_becomes_a_group_when_its_time_comes(steps: str, expected: list[str]) -> None:
    """Non-transactional changes at the end of their statement, transactional ones at COMMIT, never after ROLLBACK."""
    storage = MemoryStorage()
    with writer(storage, gtid_mode="OFF") as log, log.session() as session:
        run(session, steps)

    assert shape(events_of(storage)) == [*expected, "Stop"]


@pytest.mark.parametrize(("steps", "refused", "expected"), [("B N T", "", STMT), ("B T", "N", []), ("", "M", [])])
def test_changes_that_one_gtid_cannot_name_are_refused(steps: str, refused: str, expected: list[str]) -> None:
    """With the server's error, and the transaction continues."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        run(session, steps)
        if refused:
            with pytest.raises(LoggingError, match="1785") as caught:
                run(session, refused)
            assert caught.value.symbol == "ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE"
        in_transaction = session.in_transaction
        session.commit()

    assert in_transaction is ("B" in steps)
    assert shape(events_of(storage)) == [*expected, *(TRX if "T" in steps else []), "Stop"]


def test_a_closed_session_or_writer_takes_nothing() -> None:
    """It must not look as if something was logged."""
    log = writer()
    with pytest.raises(WriterStateError, match="not open"):
        log.session().execute(insert(1))
    with log:
        session = log.session()
        other = log.session()
        session.close()
        for call in (session.begin, session.commit, session.rollback, lambda: session.execute(insert(1))):
            with pytest.raises(WriterStateError, match="session is closed"):
                call()
    with pytest.raises(WriterStateError, match="not open"):
        other.execute(insert(1))
    with pytest.raises(WriterStateError, match="not open"):
        log.rotate()
    log.close()


def test_sessions_of_several_threads_write_whole_groups() -> None:
    """Every transaction once, its events together, GTIDs without a gap."""
    storage = MemoryStorage()
    threads, transactions = 4, 25

    def work(log: BinlogWriter, number: int) -> None:
        with log.session("shop") as session:
            for index in range(transactions):
                session.begin()
                session.execute(insert(number * 1000 + index))
                session.execute(insert(number * 1000 + index, table=T2))
                session.commit()

    with writer(storage, max_binlog_size=4096) as log:
        workers = [Thread(target=work, args=(log, number)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        executed = log.gtid_executed
    found = logged(storage)

    assert executed == GtidSet.parse(f"{UUID}:1-{threads * transactions}")
    assert len(found) == 2 * threads * transactions
    assert [after for _, _, after in found[::2]] == [after for _, _, after in found[1::2]]
    assert {after[0] for _, _, after in found} == {
        number * 1000 + index for number in range(threads) for index in range(transactions)
    }
