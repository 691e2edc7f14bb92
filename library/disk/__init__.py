"""What takes disk under SHOAL_HOME: what files say of each other, and where state is."""
