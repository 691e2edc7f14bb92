"""Who may come in, and our own routes for files."""
