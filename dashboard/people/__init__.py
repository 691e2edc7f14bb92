"""The People page: one's own account, and for admins all of them and the log of deeds."""
