"""All that people made in one file, and back."""
