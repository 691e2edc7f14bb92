"""How damaged files are read, next to other readers; data of its own it has none."""
