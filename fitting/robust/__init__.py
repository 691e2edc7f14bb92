"""Exact fits of losses with corners: their minimum goes through a few rows, which passes find."""
