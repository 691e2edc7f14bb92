"""Searches by their folders; Optuna is not imported here."""
