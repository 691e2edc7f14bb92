"""From bytes to blocks to design rows."""
