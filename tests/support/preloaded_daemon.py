"""Daemon of Spark's Python workers that imports binlogio before it forks them.

The setting `spark.python.daemon.module` names it; the default is `pyspark.daemon`. Without it each worker imports
binlogio, which takes longer than most queries of the tests. Only the session of the fixture `spark` has it: tests that
start another Spark, on a cluster or in a program, use the default.
"""

from __future__ import annotations

import gc

import pyspark.daemon

import pyspark_binlogio.read
import pyspark_binlogio.stream
import pyspark_binlogio.write  # noqa: F401 - for the workers

if __name__ == "__main__":
    gc.freeze()  # a worker collects garbage after each task
    pyspark.daemon.manager()
