"""Byte ranges of a log, and the event groups that begin in each."""
