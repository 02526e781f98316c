"""Small tasks, models and readers that several experiments use; nothing here knows one of them."""
