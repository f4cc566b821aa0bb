"""The command line: `binlogio dump`, `write`, `replay`, `undo`."""
