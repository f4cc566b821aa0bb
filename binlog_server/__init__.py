"""The source side of the replication protocol of MySQL and MariaDB, over log files that may grow."""
