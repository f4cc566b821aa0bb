"""MySQL and MariaDB as targets: by BINLOG statements or by SQL of rows.

`target` is the way in (`MysqlTarget`).
"""
