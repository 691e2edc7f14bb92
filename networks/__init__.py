"""PyTorch modules: stored without pickle, and their gradients and scores; imported by those who train one only."""
