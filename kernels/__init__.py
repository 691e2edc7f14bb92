"""Our C, built once, and its thin callers."""
