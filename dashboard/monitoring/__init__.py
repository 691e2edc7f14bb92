"""What a monitor of the team's own reads at /metrics."""
