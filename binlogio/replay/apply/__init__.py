"""Apply transactions to a target: in parallel as far as the logical clock of the log allows, committed in its order.

`replay` connects reader, filter, coordinator and target. The coordinator gives transactions to workers; `commit_order`,
`commit_groups` and `scheduler` decide what may run and commit together; `progress` is what a target stores of them.
"""
