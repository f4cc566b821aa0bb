"""Which implementation does the bulk work: the compiled kernel, or construct, which is slow and says the same.

Knows the kernel's modules and one environment variable; everybody who has a choice asks here.

    BINLOGIO_KERNEL := nothing    the compiled kernel; construct, with one warning a process, where it is not there
                     | construct  construct, without a warning
                     | compiled   the compiled kernel; an error where it is not there
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from importlib import import_module
from typing import Final

from binlogio.errors import UnsupportedFeature

COMPILED: Final = "compiled"
CONSTRUCT: Final = "construct"
VARIABLE: Final = "BINLOGIO_KERNEL"
INSTALL: Final = "install a C compiler and Python's headers, then reinstall binlogio"
MODULES: Final = (
    "arrow_arrays",
    "arrow_nodes",
    "batch_fills",
    "batches",
    "encode",
    "floating",
    "frames",
    "hot",
    "mixed_batch",
    "packer",
)  # which bring in the others


def implementation() -> str:
    """`compiled` or `construct`, for what begins now.

    Raises:
        UnsupportedFeature: the variable asks for something that is not there.
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
    _warn(missing)
    return CONSTRUCT


def is_compiled() -> bool:
    """True where the compiled kernel does the work.

    Raises:
        UnsupportedFeature: as `implementation`.
    """
    return implementation() == COMPILED


@cache
def missing_module() -> str | None:
    """What import says of the first of the kernel's modules that is not there; None where all are."""
    for name in MODULES:
        try:
            import_module(f"binlogio._kernel.{name}")
        except ImportError as exc:
            return str(exc)
    return None


@cache
def _warn(missing: str) -> None:
    """Say once that everything will take long."""
    warnings.warn(
        f"binlogio runs without its compiled kernel ({missing}) and is about a hundred times slower; {INSTALL}."
        f" Set {VARIABLE}={CONSTRUCT} to disable this warning",
        RuntimeWarning,
        stacklevel=4,
    )
