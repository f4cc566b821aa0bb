"""Starts a local Spark session with settings that suit binary logs and a terminal."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from typing import TYPE_CHECKING, Final

from pyspark_binlogio import register
from pyspark_binlogio.java import require_java
from pyspark_binlogio.pyspark_api import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS: Final = {
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",  # a tenth more throughput than the default collector
    "spark.driver.memory": "4g",  # the limit of Java's heap
    "spark.executorEnv.OPENBLAS_NUM_THREADS": "1",  # else each process starts threads that wait busily
    "spark.log.level": "ERROR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""Default settings of a session. The warehouse is a temporary directory, removed when the process ends."""

_MASTER: Final = "spark.master"
_WAREHOUSE: Final = "spark.sql.warehouse.dir"

_ENVIRONMENT: Final = {
    "PYSPARK_PYTHON": sys.executable,  # else Spark runs the `python3` on PATH; not all of Spark uses the setting
    "SPARK_LOCAL_IP": "127.0.0.1",  # else Spark warns about the machine's name
}


def start_session(app_name: str, settings: dict[str, str]) -> SparkSession:
    """Start a session, or use the one that is running, and make `format("binlog")` known to it.

    Raises:
        JavaNotFoundError: no suitable Java was found; the message says what to install.
        PySparkVersionError: PySpark is older than 4.1.
    """
    require_pyspark()
    require_java()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - slow to import, and needs Java

    spark = SparkSession.getActiveSession()
    if spark is None:
        for name, value in _ENVIRONMENT.items():
            os.environ.setdefault(name, value)
        builder = SparkSession.builder.appName(app_name)
        for name, value in {**_defaults(), **settings}.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
    else:
        for name, value in settings.items():
            spark.conf.set(name, value)
    register(spark)
    return spark


def _defaults() -> dict[str, str]:
    warehouse = tempfile.mkdtemp(prefix="binlogio-warehouse-")
    atexit.register(shutil.rmtree, warehouse, ignore_errors=True)
    return {_MASTER: "local[*]", _WAREHOUSE: warehouse, **SETTINGS}
