"""Column types, how Spark spells them, what holds what exactly, and partition transforms."""
