"""`python -m binlogio`: the program, where its script is not on PATH."""

from __future__ import annotations

from binlogio_cli.main import main

main()
