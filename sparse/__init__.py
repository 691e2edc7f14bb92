"""Tables of which most values are 0, as rows are written or as texts become columns: read, fitted, predicted."""
