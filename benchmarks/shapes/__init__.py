"""Tables that are not tall: more columns than rows, and sparse ones; and the first second."""
