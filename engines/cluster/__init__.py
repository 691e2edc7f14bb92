"""The engine whose workers are actors of a Ray cluster; nothing is imported here."""
