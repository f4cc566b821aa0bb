"""Reads logs with several threads, and returns the results in the order of the logs.

`LogCuts` cuts logs into parts, a `LogPartReader` reads parts in one thread, and `OrderedResults` runs the threads.
`PartFacts` passes table definitions from a part to later parts.
"""
