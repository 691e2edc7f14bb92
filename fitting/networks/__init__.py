"""Networks on tables: what they are worth beside the exact linear model on the same rows, and what is said of that."""
