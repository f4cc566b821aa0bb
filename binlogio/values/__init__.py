"""Column values, one family of types a module: grammar, construct layout, text.

The construct definitions here specify every byte; `binlogio._kernel` gives the same answers fast. `column` is what the
families share, `layout` the layout of any column, `text` the text of any value.
"""
