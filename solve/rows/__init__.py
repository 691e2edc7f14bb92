"""Exact answers from the rows themselves, where columns are too many for their moments; dense rows and sparse ones."""
