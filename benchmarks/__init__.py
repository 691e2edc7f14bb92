"""How fast and lean Shoal is, as ratios to polars and to pandas + scikit-learn: `python -m benchmarks`."""
