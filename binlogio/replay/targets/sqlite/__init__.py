"""SQLite as a target: rows, the DDL of the log, and statements that can be translated without loss.

`target` is the way in (`SqliteTarget`).
"""
