"""Reading a log by several threads, in the order of the log."""
