"""Networks on real tables beside the exact linear model and scikit-learn's: `python -m benchmarks.networks`."""
