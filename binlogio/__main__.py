"""`python -m binlogio`: runs the command-line program if its script is not on PATH."""

from __future__ import annotations

from binlogio_cli.start import main

main()
