"""Tables of cells whose text columns have very many levels, or are hashed: a sparse design, fitted and predicted."""
