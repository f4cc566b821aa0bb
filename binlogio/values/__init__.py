"""Column values, one family of types a module: grammar, construct layout, text.

The construct definitions here specify every byte; `binlogio._kernel` gives the same answers fast. Rows are in
`binlogio.rows`.
"""
