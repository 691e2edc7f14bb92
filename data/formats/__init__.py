"""What surrounds a table in a file: rows above, below and between its own, other encodings, packed files."""
