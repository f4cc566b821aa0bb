# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Encodes Arrow columns and Python values as row images, and builds rows events and groups.

    write/arrow_columns.pxi   Arrow buffers of a column, whose values `column_values` encodes
    write/rows_encoder.pxi    rows events from Arrow batches; write/python_values.pxi: row images from Python values
    write/event_buffer.pxi    positions and checksums of events; write/fast_path.pxi: small transactions
"""

from binlogio._kernel.column_kinds cimport K_BYTES, K_DIFFS, K_JSON, K_LATIN, K_UTF8

include "write/arrow_columns.pxi"
include "write/rows_encoder.pxi"
include "write/python_values.pxi"
include "write/event_buffer.pxi"
include "write/fast_path.pxi"
