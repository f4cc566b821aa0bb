"""Output formats and filters of `binlogio dump`.

`filters` selects events; `text_output`, `json_output` and `sql_output` format them. `binlogio_cli.commands.dump` has
the options of the command. These modules are not public; only the output is.
"""
