"""The entry points of detached processes."""
