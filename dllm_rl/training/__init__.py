"""Training by the objective: the pass of its terms over a roll-out, the trainer and its arguments."""
