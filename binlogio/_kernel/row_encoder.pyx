# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Encodes Arrow columns and Python values as row images, and builds rows events and groups.

    write/arrow_columns.pxi   Arrow buffers of a column; write/values.pxi: one value of them into a row image
    write/rows_encoder.pxi    rows events of Arrow batches; write/python_values.pxi: row images of Python values
    write/event_buffer.pxi    positions and checksums of events; write/fast_path.pxi: small transactions
"""

from binlogio._kernel.column_kinds cimport *

include "write/arrow_columns.pxi"
include "write/values.pxi"
include "write/rows_encoder.pxi"
include "write/python_values.pxi"
include "write/event_buffer.pxi"
include "write/fast_path.pxi"
