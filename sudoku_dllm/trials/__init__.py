"""Comparisons of trainings: what came of their jobs, and how sure one may be of it."""
