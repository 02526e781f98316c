"""Trials: trainings that are compared at equal cost, and what is kept of them."""
