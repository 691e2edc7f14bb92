"""How single values are written, and how one tells that from some of them; tables and files do not belong here."""
