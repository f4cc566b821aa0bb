"""Logging decisions as pure functions: what a statement is, whether it is safe, and in which format it is logged.

`Statement` is what a session executes; `facts_from_sql` finds in its text what `decide_logging_format` decides from.
Rules come from the worklogs, and from recordings of a real server where the two disagree.
"""
