"""The file format between bytes and events, without I/O: primitives, framing, decoder, encoder, event groups, splits.

Single events are in `binlogio.events`, column values in `binlogio.values`; files are opened in
`binlogio.storage.sources`.
"""
