"""One exact fit, its report and its model file."""
