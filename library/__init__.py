"""What is kept: saved models, accounts of runs, notes, archives, disk space."""
