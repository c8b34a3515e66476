"""Pure values and functions: no network, no clock, no engine. Imports the standard library and pydantic only."""
