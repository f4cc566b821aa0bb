"""The compiled kernel and construct: the same values, and the same errors, of every type, on good rows, damaged ones and garbage."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from both_kernels import KERNELS, error_of_events, tables_by
from log_cases import Rows, damaged_rows, rows

ZERO_DATES = st.sampled_from(("error", "null", "text"))
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=300, suppress_health_check=SLOW)
@given(rows(), ZERO_DATES)
def test_rows_of_every_type_are_the_same(case: Rows, zero_dates: str) -> None:
    """Values, types, bitmaps, numbers."""
    data = case.log()
    found = [tables_by(kernel, data, zero_dates=zero_dates) for kernel in KERNELS]

    assert found[0] == found[1]
    assert error_of_events(data) is None


@settings(max_examples=600, suppress_health_check=SLOW)
@given(damaged_rows(), ZERO_DATES)
def test_damaged_rows_are_refused_alike(case: Rows, zero_dates: str) -> None:
    """Class, text, offset and field; and where the event reader refuses them, that is what both say."""
    data = case.log()
    compiled, construct = (tables_by(kernel, data, zero_dates=zero_dates) for kernel in KERNELS)
    events = error_of_events(data)

    assert compiled == construct
    if events is not None:
        assert construct == events
