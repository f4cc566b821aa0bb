"""Batch and stream readers: pushed filters, partitions, and conversion to the schema of the read."""
