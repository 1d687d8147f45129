"""`python -m unbounded` is the command `unbounded`."""

from unbounded.cli import app

app()
