"""Knobs as widgets, and the form of a run."""
