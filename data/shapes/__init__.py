"""Columns of numbers bent before a model sees them: logarithms, bins, splines, parts of dates."""
