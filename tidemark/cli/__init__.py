"""The command line. The only part of tidemark that may launch Dagster."""
