"""`python -m binlogio_cli`: runs the program if its script is not installed."""

from __future__ import annotations

from binlogio_cli.start import main

main()
