"""A run serves many tables side by side; a sensor's lingers for more."""
