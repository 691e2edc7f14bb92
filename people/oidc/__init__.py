"""People who come by the team's OpenID provider; what they may do is decided by our own roles."""
