"""Small models and rows for verl on a processor; see docs/raro.md, 'On verl'."""
