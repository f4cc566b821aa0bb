"""The file format between bytes and events, without I/O: framing, decoder, encoder, event groups, splits.

`EventFramer` turns bytes into frames, `Decoder` frames into events, `Encoder` events into bytes; `GroupTracker` finds
the begin and end of event groups, and `event_starts` checks offsets that a user gives. Single events are in
`binlogio.events`, column values in `binlogio.values`; files are opened in `binlogio.storage.sources`.
"""
