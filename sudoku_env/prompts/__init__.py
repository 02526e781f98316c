"""A puzzle in words: templates, grids in text, layouts of answers, tokens, and the scoring of answers."""
