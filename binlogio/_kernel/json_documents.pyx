# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""MySQL's binary JSON: to text, to SQL, from text, and with JSON diffs applied.

    json/text.pxi    binary JSON as text
    json/diff.pxi    JSON diffs applied to a document
    json/build.pxi   text as binary JSON
    json/expression.pxi   binary JSON as an SQL expression
"""

include "json/text.pxi"
include "json/diff.pxi"
include "json/build.pxi"
include "json/expression.pxi"
