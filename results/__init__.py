"""What is said of a fit, as types that everybody may read: no NumPy, no files, and nothing is computed here."""
