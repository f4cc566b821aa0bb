"""Parsing of DDL into table definitions: tokens, CREATE TABLE, ALTER TABLE, partitions.

A statement is followed exactly, or the tables in it are forgotten.
"""
