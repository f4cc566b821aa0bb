"""History of the tables in logs, for a replay: statements, rollbacks, names and columns of a table at each position.

`log_marks` extracts what a replay needs besides row changes, `table_history` builds the life of each table from it, and
`table_life` says which columns a table had where. Other packages use `marks_of`, `TableHistory` and `Life`.
"""
