"""The same record batches by construct, for installations without the compiled kernel and for errors."""
