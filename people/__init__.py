"""Who is who and who may do what: people with passwords and roles, what belongs to whom, and a log of deeds."""
