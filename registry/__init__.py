"""What is decided about versions of a saved model: which is better on the same rows, and which an alias may mean."""
