"""Logging decisions as pure functions: what a statement is, whether it is safe, and in which format it is logged.

`Statement` is what a session executes; `facts_from_sql` finds in its text the facts from which `decide_logging_format`
decides. Rules come from the worklogs, and from recordings of a real server if the two disagree.
"""
