"""Measurements of what a team shares: the queue and its run hosts."""
