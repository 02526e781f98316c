"""Episodes with tools: calls in the model's text, their results as tokens, and what trainers make of both."""
