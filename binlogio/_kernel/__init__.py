"""Compiled kernel: fast versions of the construct-based code for event headers and for row images in both directions.

Six extension modules, `NAME.pyx`, most of which include the files of one folder. `NAME.pxd` has the C declarations and
`NAME.pyi` the Python types. Files ending in `.pxd` inside the folders hold inline functions that several modules use.

    primitives      base/ values/   memory, CRC32, zlib, text of values
    json_documents  json/           binary JSON
    event_scanner   scan/           event headers, table maps, row filters, locations of values
    row_decoder     read/           row images to Arrow and JSON
    python_rows                     row images to Python
    row_encoder     write/          Arrow and Python values to row images, rows events, groups

Each module imports only modules above it, and from binlogio only `errors`. Every read is bounds-checked, positions are
64 bits wide, and loops run without the GIL. Without a C compiler these modules are not built (`binlogio.KERNEL`).
"""
