"""History of tables in logs: statements, rollbacks, and the name and columns of a table at each position."""
