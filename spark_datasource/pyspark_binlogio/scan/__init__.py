"""Planning of a read: log files, partitions, the request of a read, and the handling of damaged logs.

Readers, views and replays use the same planning. Nothing in here decodes rows.
"""
