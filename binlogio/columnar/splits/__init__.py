"""Places in a log that can be found without reading all of it: event groups, and the identity of the log.

`split_bounds` finds the event groups of a byte range by searching, `group_scan` by scanning headers. `skipped_events`
yields the events that a reader needs from the part before its start; `log_identity` identifies a log.
"""
