"""What a model is punished for: losses of rows, with their link, curvature and deviance; no data and no solver."""
