"""How blocks are made again from their source where they are not at hand."""
