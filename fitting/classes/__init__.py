"""One exact fit of a model of several classes: its target, passes over its rows, what is said of it."""
