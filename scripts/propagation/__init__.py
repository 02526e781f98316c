"""A task without symmetries, as an example of a task of one's own: what a loss on definite positions gains there."""
