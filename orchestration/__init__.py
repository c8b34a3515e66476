"""The composition root: reads contracts, builds Definitions. No logic."""
