"""Row images: the plan of a table map, its columns, and the images in both directions.

Values of single columns are in `binlogio.values`.
"""
