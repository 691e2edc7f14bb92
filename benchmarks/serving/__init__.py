"""How fast predictions come over HTTP."""
