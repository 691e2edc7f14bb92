"""Commands of a team's installation, which has a database; they print sentences or JSON of their own."""
