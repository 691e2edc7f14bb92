"""What workers are asked about rows, one module a subject."""
