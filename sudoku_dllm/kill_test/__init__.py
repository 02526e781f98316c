"""Kills a training of yours at random moments, and compares what comes out with a run that was left alone."""
