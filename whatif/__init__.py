"""Every question that sums answer: folds, paths, studies, resampling."""
