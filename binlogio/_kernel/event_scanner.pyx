# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Scans event buffers: headers, checksums, GTIDs, table maps, and selected rows events.

    scan/event_scanner.pxi   the scanner; the other files are its parts
    scan/headers.pxi         event headers in bulk, without rows
    scan/gtid_events.pxi     scan/table_plans.pxi     scan/row_filter.pxi     scan/rows_events.pxi
    scan/group_filter.pxi    selects event groups
    scan/row_images.pxi      locates the values of row images
    scan/log_survey.pxi      verifies a log and counts its contents
    scan/group_editor.pxi    edits groups for a copy
"""

cimport cython

include "scan/row_images.pxi"
include "scan/gtid_events.pxi"
include "scan/group_filter.pxi"
include "scan/headers.pxi"
include "scan/row_filter.pxi"
include "scan/rows_events.pxi"
include "scan/table_plans.pxi"
include "scan/event_scanner.pxi"
include "scan/log_survey.pxi"
include "scan/group_editor.pxi"
include "scan/packets.pxi"
