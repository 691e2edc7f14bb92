"""What a gradient run minimises: one protocol, and squares of residuals or another loss of rows behind it."""
