"""Replay on Spark: the rows of a table at a moment, from logs or data frames. The entry point is `table_replay`."""
