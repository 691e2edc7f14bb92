"""What a look at the first and last bytes of a text tells: names, kinds, where rows begin and end. No row is read."""
