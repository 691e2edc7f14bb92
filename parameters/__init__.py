"""The flat vector of a gradient run: who holds its parts, steps them and keeps what the step rule remembers."""
