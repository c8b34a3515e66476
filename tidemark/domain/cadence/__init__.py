"""When a table is due, how fresh it is, and what a sensor asks for."""
