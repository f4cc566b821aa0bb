"""The log files: GTIDs, logical clock, group commit, rotation, index, purge and crash recovery."""
