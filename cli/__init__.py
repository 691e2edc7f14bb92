"""What `shoal ...` does, one module a group of commands."""
