"""What a column to predict looks like, by its values alone: its shape, and which model that speaks for."""
