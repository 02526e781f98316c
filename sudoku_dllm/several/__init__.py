"""Boards with several right answers: supervised training and judged decisions side by side."""
