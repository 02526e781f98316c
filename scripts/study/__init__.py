"""Finished studies of what logic teaches: their tables and pictures."""
