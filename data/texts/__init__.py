"""Columns of very many different texts: how they are kept, and hashes of them; rows and models are not known here."""
