"""Tables of which most values are 0, written as `label index:value ...`: read, fitted, predicted."""
