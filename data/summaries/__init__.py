"""What columns were like in some rows, small whatever their number: in training, and in rows that are predicted."""
