"""What all pages share: addresses, words, charts, literal text."""
