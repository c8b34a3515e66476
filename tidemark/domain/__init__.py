"""Pure values and functions: no network, no clock, no engine. Only the standard library and pydantic are imported here."""
