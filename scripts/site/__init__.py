"""What turns the pages in docs/ into a site."""
