"""Sums of gradients that workers make among themselves, in place of the server; who is called when is in `steps`."""
