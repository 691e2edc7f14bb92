"""Detached runs by their folders: launch, queue, steer; nothing here needs NumPy to be imported."""
