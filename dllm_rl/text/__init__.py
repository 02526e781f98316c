"""Plain text: answers in a form (`Pattern`), and from prompts to answers (`complete`)."""
