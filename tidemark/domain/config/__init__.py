"""The keys of contracts and of the platform file, from text to a checked configuration (docs/reference)."""
