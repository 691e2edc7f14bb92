"""The pages. They read run folders and start detached processes; nothing here parses a file or fits a model."""
