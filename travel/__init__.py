"""What goes with a run from one home of a team to another, through the team's database; not who takes the run."""
