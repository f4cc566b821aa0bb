# The commands of a developer. New users need only `make demo` and `make test`, which set up everything themselves.

PY      := .venv/bin/python
KERNEL  := $(wildcard binlogio/_kernel/*.p[yx]? binlogio/_kernel/*/*.px?)
WORKERS ?= 2
SERVERS ?=
SERVER  ?= mysql97
SEEDS   ?= 1-10
ARGS    ?=
TIME    ?= 60
PYSPARK ?= 4.1 4.2 4.3

# Spark's workers would otherwise run the `python3` on PATH, and its driver look for the machine's name.
export PYSPARK_PYTHON := $(CURDIR)/$(PY)
export SPARK_LOCAL_IP := 127.0.0.1
# Else each process, of which the tests start hundreds, compiles its modules again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test differential check format coverage bench docs man fixtures clean sanitize fuzz soak spark

help:  ## this list
	@echo 'binlogio: MySQL and MariaDB binary logs, read and written. The first run of any of these makes .venv.'
	@echo
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'
	@echo
	@echo '  make test ARGS="-k gtid -x" WORKERS=0     arguments for pytest, and in how many processes (0: this one)'

.venv/.ready-dev: pyproject.toml .ci/setup CMakeLists.txt $(KERNEL)
	@.ci/setup

.venv/.ready-demo: pyproject.toml .ci/setup CMakeLists.txt $(KERNEL)
	@.ci/setup demo

demo: .venv/.ready-demo  ## write a binlog, dump it, read it with Spark, replay it into SQLite, compare
	@$(PY) spark_datasource/pyspark_binlogio/java.py >/dev/null
	@$(PY) fixtures/demo/run.py || { echo 'demo: FAILED, see above'; exit 1; }

test: .venv/.ready-dev  ## run the tests; SERVERS=1 adds those against real servers, which are skipped with a reason if there is none
	@$(PY) spark_datasource/pyspark_binlogio/java.py >/dev/null
	@echo '==> running the tests in $(WORKERS) processes'
	@$(PY) -m pytest -n $(WORKERS) --dist loadgroup $(if $(SERVERS),-m '') $(ARGS) || { echo 'test: FAILED, see above'; exit 1; }
	@echo 'test: OK, every test passed or says above why it was skipped'

KIND_mysql97     := mysql
KIND_mariadb1011 := mariadb and not mariadb118
KIND_mariadb118  := mariadb118

differential: .venv/.ready-dev  ## random work of SEEDS=1-10 on SERVER=mysql97, mariadb1011 or mariadb118, and what reads its logs
	@$(if $(KIND_$(SERVER)),,echo 'differential: SERVER is mysql97, mariadb1011 or mariadb118'; exit 2)
	@BINLOGIO_SEEDS=$(SEEDS) $(PY) -m pytest -q -m server -k 'random and $(KIND_$(SERVER))' $(ARGS) \
	  tests/servers/test_differential_servers.py tests/servers/test_explain_servers.py \
	  tests/servers/test_schema_ddl_servers.py tests/servers/test_recovery_servers.py tests/servers/test_undo_servers.py \
	  tests/servers/test_spark_replay_servers.py

spark: .venv/.ready-dev  ## reads, writes, replays and archives with PYSPARK="4.1 4.2 4.3": local, a cluster of two workers, Spark Connect
	@for version in $(PYSPARK); do echo "==> PySpark $$version"; BINLOGIO_PYSPARK=$$version $(PY) -m pytest -q -m server $(ARGS) \
	  tests/servers/test_spark_cluster_servers.py tests/servers/test_servers_pyspark_versions.py || exit 1; done

check: .venv/.ready-dev  ## format, lint, types, layers, spelling
	@echo '==> ruff format' && .venv/bin/ruff format --check --quiet . || { echo 'check: some files are not formatted: make format'; exit 1; }
	@echo '==> ruff check' && .venv/bin/ruff check --quiet .
	@echo '==> mypy' && .venv/bin/mypy
	@echo '==> import-linter' && .venv/bin/lint-imports --no-logo
	@echo '==> codespell' && .venv/bin/codespell
	@echo 'check: OK'

format: .venv/.ready-dev  ## let ruff format the files and mend what it can
	@.venv/bin/ruff check --quiet --fix . ; .venv/bin/ruff format .

coverage: .venv/.ready-dev  ## branch coverage of the core between bytes and events
	@$(PY) -m pytest -n $(WORKERS) --dist loadgroup -m 'not spark and not server' --cov --cov-report=term $(ARGS)

sanitize: .venv/.ready-dev  ## the kernel under AddressSanitizer and UBSan, fed with hostile bytes
	@.ci/sanitize $(ARGS)

fuzz: .venv/.ready-dev  ## feed hostile input for TIME=60 (5m, 2h); SEED=1 TARGET=rows; SANITIZE=1: under the sanitizers, too
	@$(if $(SANITIZE),.ci/sanitize fuzz,PYTHONPATH=tests:tests/support:fixtures $(PY) -m fuzz.run) \
	  --time $(TIME) $(addprefix --seed ,$(SEED)) $(addprefix --target ,$(TARGET)) $(ARGS)

soak: .venv/.ready-dev  ## writers, rotation, purge and all kinds of readers on one set of logs for TIME=60 (5m, 2h)
	@PYTHONPATH=tests:tests/support:fixtures $(PY) -u -m soak.run --time $(TIME) $(ARGS)

bench: .venv/.ready-dev  ## run the benchmarks; BINLOGIO_BENCH_FILES=folder adds real logs, BINLOGIO_BENCH_BYTES=n says how large made ones are
	@BINLOGIO_BENCH_PAGE=$${BINLOGIO_BENCH_PAGE-docs/benchmarks.md} BINLOGIO_BENCH_PLOT=$${BINLOGIO_BENCH_PLOT-docs/throughput.svg} \
	  $(PY) -m pytest benchmarks --benchmark-enable --benchmark-only $(ARGS)

docs: .venv/.ready-dev  ## build the documentation site in build/site; a warning is an error
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict && echo 'docs: OK, see build/site/index.html'

man: .venv/.ready-dev  ## make the man pages of all commands in build/man
	@.venv/bin/python docs/man_pages.py build/man && echo 'man: OK, see man -l build/man/binlogio.1'

fixtures: .venv/.ready-dev  ## make fixtures/ again from real servers (root and debootstrap)
	@$(PY) fixtures/regenerate.py

clean:  ## remove .venv and everything that was built
	rm -rf .venv build dist ./*.egg-info demo-out .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .benchmarks .coverage*
	rm -f binlogio/_kernel/*.so binlogio/_kernel/*.c
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
