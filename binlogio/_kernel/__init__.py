"""The compiled kernel: the answers of construct for event headers in bulk and row images in both directions, fast.

Six extension modules, `NAME.pyx`, most of which include the files of one folder; `NAME.pxd` has its C declarations and
`NAME.pyi` its types for Python. Files ending in `.pxd` inside the folders hold inline functions that several modules
use.

    primitives      base/ values/   memory, CRC32, zlib, text of values
    json_documents  json/           binary JSON
    event_scanner   scan/           event headers, table maps, row filters, locations of values
    row_decoder     read/           row images to Arrow and JSON
    python_rows                     row images to Python
    row_encoder     write/          Arrow and Python values to row images, rows events, groups

Each imports only those above it, and from binlogio only `errors`. Each read is checked against what remains, positions
are 64 bits wide, loops run without the interpreter lock. Without a C compiler these modules do not exist
(`binlogio.KERNEL`).
"""
