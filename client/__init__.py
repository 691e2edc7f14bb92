"""Shoal on another machine, in Python: what the API of a dashboard offers, with the words of the local one."""
