"""Binary logs as Spark data frames: `spark.read.format("binlog").load("/var/lib/mysql/binlog.*")`.

Spark finds this package by its prefix `pyspark_` and takes `DefaultSource`; where it does not (one package with that prefix that
cannot be imported stops its search), `register(spark)` does it by hand. `binlogio_session()` starts a local session with
sane settings.

Every session that uses any Python data source imports this package, so it imports nothing itself, and never fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyspark_binlogio.source import BinlogDataSource
    from pyspark_binlogio.source import BinlogDataSource as DefaultSource

__all__ = ["BinlogDataSource", "DefaultSource", "binlogio_session", "register"]


def __getattr__(name: str) -> object:
    if name not in {"BinlogDataSource", "DefaultSource"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415
    except ImportError as exc:  # an ImportError here would end Spark's search for the data sources of others as well
        raise AttributeError(f"{__name__}.{name} needs PySpark 4.1 or newer: {exc}") from exc
    return BinlogDataSource


def register(spark: SparkSession) -> None:
    """Make `format("binlog")` known to this session, where Spark has not found it by itself."""
    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    spark.dataSource.register(BinlogDataSource)


def binlogio_session(app_name: str = "binlogio", *, settings: dict[str, str] | None = None) -> SparkSession:
    """Start a local Spark session that reads binary logs, or take the one that is running.

    Args:
        app_name: how Spark calls it.
        settings: Spark's own settings by their names; they win over ours (`pyspark_binlogio.session.SETTINGS`).

    Raises:
        JavaNotFoundError: there is no Java that Spark could run on; says what to install.
    """
    from pyspark_binlogio.session import start_session  # noqa: PLC0415

    return start_session(app_name, settings or {})
