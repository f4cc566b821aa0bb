"""What a table held at a moment: changes from logs or frames, folded by its key. `table_replay` is the way in."""
