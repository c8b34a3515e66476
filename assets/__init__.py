"""Factories from contract to assets and checks. Bodies are thin: the engine works."""
