"""Selects the implementation of parsing and building events: the compiled kernel, or construct.

Both give the same results; construct is about a hundred times slower, and is enough for `binlogio.open`, the writer and
`dump`. Everything else calls `require_kernel` first. The environment variable selects:

BINLOGIO_KERNEL := (unset)    the compiled kernel; if it is not installed, construct, with one warning per process.
                              An error if binlogio is imported from a zip archive, which cannot contain the kernel
                 | construct  construct, without a warning
                 | compiled   the compiled kernel; an error if it is not installed
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from typing import Final
from zipimport import zipimporter

from binlogio.errors import MissingKernel, UnsupportedFeature

COMPILED: Final = "compiled"
CONSTRUCT: Final = "construct"
VARIABLE: Final = "BINLOGIO_KERNEL"
INSTALL: Final = "install a wheel of binlogio; or a C compiler and Python's headers, then reinstall binlogio"
IN_ARCHIVE: Final = (
    "install binlogio where it runs, with Spark's --py-files in the Python of the executors (docs/spark_clusters.md)"
)
MODULES: Final = (
    "primitives",
    "json_documents",
    "column_values",
    "event_scanner",
    "row_decoder",
    "row_encoder",
    "python_rows",
    "python_events",
    "event_texts",
)


def implementation() -> str:
    """Return `compiled` or `construct`, from the current value of the environment variable.

    Raises:
        UnsupportedFeature: the variable has an unknown value; or the kernel is not installed, and the variable is
            `compiled`, or is unset and binlogio is in a zip archive, such as one of Spark's `--py-files`.
    """
    wanted = os.environ.get(VARIABLE, "")
    if wanted == CONSTRUCT:
        return CONSTRUCT
    if wanted not in ("", COMPILED):
        raise UnsupportedFeature("unknown kernel", field=VARIABLE, expected=f"{COMPILED} or {CONSTRUCT}", found=wanted)
    missing = missing_module()
    if missing is None:
        return COMPILED
    if wanted == COMPILED:
        raise UnsupportedFeature("the compiled kernel is not installed", field=VARIABLE, found=missing, hint=INSTALL)
    if _is_in_archive():
        raise UnsupportedFeature(
            "binlogio is imported from a zip archive, from which Python cannot load the compiled kernel",
            field=VARIABLE,
            found=__file__,
            hint=f"{IN_ARCHIVE}; {VARIABLE}={CONSTRUCT} reads events and writes logs without it",
        )
    _warn(missing)
    return CONSTRUCT


def is_compiled() -> bool:
    """Return True if the compiled kernel is used.

    Raises:
        UnsupportedFeature: as in `implementation`.
    """
    return implementation() == COMPILED


def require_kernel(what: str) -> None:
    """Check that the compiled kernel is used, before a call that has no other implementation; `what` names it.

    Raises:
        MissingKernel: it is not installed, or turned off.
        UnsupportedFeature: the environment variable has an unknown value.
    """
    if os.environ.get(VARIABLE) == CONSTRUCT:
        found, hint = f"{VARIABLE}={CONSTRUCT}", f"unset {VARIABLE}"
    else:
        missing = missing_module()
        if missing is None:
            implementation()
            return
        found, hint = missing, INSTALL
        if _is_in_archive():
            found, hint = "binlogio in a zip archive, from which Python cannot load it", IN_ARCHIVE
    raise MissingKernel(f"{what} needs the compiled kernel", found=found, hint=hint)


def _is_in_archive() -> bool:
    return isinstance(__spec__.loader, zipimporter)


@cache
def missing_module() -> str | None:
    """Return the import error of the first missing kernel module; None if all are installed."""
    for name in MODULES:
        try:
            import_module(f"binlogio._kernel.{name}")
        except ImportError as exc:
            return str(exc)
    return None


@cache
def _warn(missing: str) -> None:
    """Warn once per process that construct is slow."""
    warnings.warn(
        f"binlogio runs without its compiled kernel ({missing}): it only reads events, dumps and writes logs, about a"
        f" hundred times slower; {INSTALL}."
        f" Set {VARIABLE}={CONSTRUCT} to disable this warning",
        RuntimeWarning,
        stacklevel=4,
    )
