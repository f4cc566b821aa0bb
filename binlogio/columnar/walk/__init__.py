"""The walk over the events of a log: windows of a file, payloads, large events, events that are skipped."""
