"""What is worth knowing of a table before a model is fitted to it, and how it is found."""
