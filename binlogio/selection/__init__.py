"""Which changes: the selection that all commands, Python and Spark share.

table_names     globs of databases and tables: one rule for names
event_filter    row changes by position, time, server, GTID, operation; the sets of GTIDs in filters
selection    event groups by time, server, GTID, database and table
row_condition   row changes by their values: the language of `--where`
"""
