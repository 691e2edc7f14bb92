"""What is asked about a model of another loss than squares: how certain coefficients are, what columns are worth."""
