"""The compiled kernel: a cache of two answers of construct's, event headers in bulk and row images in both directions.

Knows bytes and pointers; imports nothing from binlogio but its errors. Each read is checked against what remains,
positions are 64 bits wide, loops run without the interpreter lock. Where no compiler was, these modules do not exist
(`binlogio.KERNEL` tells).
"""
