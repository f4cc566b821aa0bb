# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""MySQL's binary JSON: to text, to SQL, from text, and JSON diffs; and record batches as JSON lines.

    json/text.pxi    binary JSON to text
    json/diff.pxi    applies JSON diffs to a document
    json/build.pxi   text to binary JSON
    json/expression.pxi   binary JSON to an SQL expression
    json/lines.pxi   Arrow record batches to JSON lines
"""

include "json/text.pxi"
include "json/diff.pxi"
include "json/build.pxi"
include "json/expression.pxi"
include "json/lines.pxi"
