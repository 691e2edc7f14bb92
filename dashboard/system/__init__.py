"""The System page."""
