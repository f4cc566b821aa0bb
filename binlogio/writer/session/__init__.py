"""Sessions: caches, transactions, XA, DDL, and the events of each statement.

`Session` is the interface for a client; its parts share one `ConnectionState`. The format of a statement is decided in
`binlogio.writer.rules`; groups are committed in `binlogio.writer.log`.
"""
