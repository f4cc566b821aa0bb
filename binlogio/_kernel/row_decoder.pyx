# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Decodes row images into Arrow buffers or JSON text, and exports record batches.

    read/table_batch.pxi        records of one table; read/windows.pxi: of a file, window by window
    read/mixed_batch.pxi        records of all tables, with images as JSON text (read/image_text.pxi)
    read/inverse_sql.pxi        SQL that reverses row changes (flashback); read/inverse_groups.pxi: of whole groups
    read/metadata_columns.pxi   metadata columns of all records; read/json_columns.pxi: JSON diffs
    read/arrow_arrays.pxi       the Arrow C data interface (read/arrow_nodes.pxi)
    read/event_walk.pxi         the events of a log one by one; read/event_records.pxi and
                                read/group_records.pxi: records of events, of event groups
    read/record_columns.pxi     columns that grow value by value
"""

from binlogio._kernel.column_kinds cimport K_FLAGGED

include "read/json_columns.pxi"
include "read/metadata_columns.pxi"
include "read/table_batch.pxi"
include "read/windows.pxi"
include "read/image_text.pxi"
include "read/inverse_sql.pxi"
include "read/inverse_groups.pxi"
include "read/mixed_batch.pxi"
include "read/arrow_arrays.pxi"
include "read/arrow_nodes.pxi"
include "read/record_columns.pxi"
include "read/event_walk.pxi"
include "read/event_records.pxi"
include "read/group_records.pxi"
