"""The rules of gradient training: whose turn, how a gradient becomes a step, how it travels; no I/O, no clock."""
