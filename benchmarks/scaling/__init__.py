"""What `shoal plan` predicts beside what is measured."""
