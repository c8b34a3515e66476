"""The files of a configuration, and what was last seen of topics. No network."""
