"""Finds places in a log without reading all of it: event groups, and the identity of the log.

`split_bounds` finds the event groups of a byte range by searching, `group_scan` by scanning headers. `skipped_events`
yields the events before its start that a reader needs. `log_identity` identifies a log.
"""
