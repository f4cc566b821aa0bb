"""Log files: GTIDs, logical timestamps, group commit, rotation, the index, purging and crash recovery.

`GroupCommit` receives finished groups from many sessions and writes them to the active log. `LogStorage` is the file
system that it writes to, `ActiveLog` the file; `recover` opens a log again after a crash.
"""
