"""Exact fits of models of other losses than squares: passes over the rows, the way down, what is said of it."""
