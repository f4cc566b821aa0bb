"""SQLite as a target: rows and the DDL of the log.

`target` is the way in (`SqliteTarget`).
"""
