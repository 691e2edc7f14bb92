"""Files of rows of which most values are 0: read, fitted, predicted."""
