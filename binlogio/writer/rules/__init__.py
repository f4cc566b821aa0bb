"""Logging decisions as pure functions: what a statement is, whether it is safe, and in which format it is logged.

Source: the worklogs, and recordings of a real server where they disagree.
"""
