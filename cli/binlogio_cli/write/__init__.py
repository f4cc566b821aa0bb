"""`binlogio write`: the actions of scripts and their JSON Schema, the interpreter of scripts, and rows of data files.

The options are in `binlogio_cli.commands.write`; the library's writer is `binlogio.writer`.
"""
