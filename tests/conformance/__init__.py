"""What a real server did with some 1,900 mixes of statements, and whether the writer does the same."""
