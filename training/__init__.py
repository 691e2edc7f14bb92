"""One gradient run, from objective to checkpoint."""
