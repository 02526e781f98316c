"""RARO on a toy game, and on verl."""
