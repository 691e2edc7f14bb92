"""What a run would take on machines that are not here: constants that are measured, runs that are rehearsed."""
