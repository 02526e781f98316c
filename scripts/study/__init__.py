"""The study: trainings and controls at equal budgets, and their report."""
