"""The views of a log: columns and records of `rows`, `events`, `transactions` and `changes`.

`view` has the table of them, `VIEWS`; each other module defines one view or reads records for several. Readers use
`VIEWS` and the names of the columns of `changes`.
"""
