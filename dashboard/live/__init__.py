"""The page of one run, live."""
