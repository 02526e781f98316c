"""Boards with several right answers: what a model of the data alone can reach there."""
