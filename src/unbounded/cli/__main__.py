from unbounded.cli import app

app()
