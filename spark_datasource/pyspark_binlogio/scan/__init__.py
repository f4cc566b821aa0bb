"""Planning of a read: log files, partitions, the request, and the handling of damaged logs."""
