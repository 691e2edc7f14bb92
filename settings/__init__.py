"""The knobs: declared once, read from flags, YAML and forms."""
