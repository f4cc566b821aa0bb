"""What logs say of tables beside their rows: statements, groups that do not hold, and what a table was called and made of when."""
