"""Files that people asked for, written where they said; our own read back, with what proves that they are whole."""
