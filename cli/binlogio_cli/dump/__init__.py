"""Output formats and filters of `binlogio dump`.

`filters` selects events, and one of `text_output`, `json_output` and `sql_output` prints them. The options of the
command are in `binlogio_cli.commands.dump`. Nothing here is public: scripts read the output, not these modules.
"""
