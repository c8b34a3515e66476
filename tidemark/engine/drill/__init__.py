"""Failure rehearsal on a scratch topic and table of the platform itself."""
