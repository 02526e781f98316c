"""A small task with a verifier and no expert answers: put signs between numbers so that they add up to a target."""
