"""What is run from the command line, by path or with `python -m scripts.<folder>.<name>`; no wheel has it."""
