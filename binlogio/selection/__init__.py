"""Which changes: the selection that all commands, Python and Spark share.

table_names   globs of databases and tables: one rule for names
"""
