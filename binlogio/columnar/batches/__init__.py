"""Record batches from the rows events of a walk: records of one table, of all tables, and their metadata columns."""
