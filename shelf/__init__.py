"""Where saved models are kept: files of a home, or the tables of a team's database."""
