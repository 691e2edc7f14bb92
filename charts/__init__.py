"""Pictures of a model as plain values, made once from its numbers; pages and reports each draw them their own way."""
