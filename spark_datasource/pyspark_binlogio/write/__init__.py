"""Writes records as binary logs: tasks stage files, the commit makes them logs. The entry point is `log_writer`."""
