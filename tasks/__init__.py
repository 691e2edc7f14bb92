"""What a person can ask for, one module each, from config to answer."""
