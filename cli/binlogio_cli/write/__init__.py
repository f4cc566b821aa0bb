"""`binlogio write`: script actions and their JSON Schema, the script interpreter, and rows of data files.

`binlogio_cli.commands.write` has the options; `binlogio.writer` writes the logs.
"""
