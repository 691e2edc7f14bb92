"""Our own files read back: what proves that they are what was written."""
