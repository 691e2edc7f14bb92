"""What a run does, as spans for the team's own collector."""
