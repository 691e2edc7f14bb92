"""Paths of penalties and cross-validation for models of other losses: many points in each sweep over the rows."""
