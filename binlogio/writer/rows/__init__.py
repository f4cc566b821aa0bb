"""Row images and rows events of statements: which columns an image has, their bytes, the writeset."""
