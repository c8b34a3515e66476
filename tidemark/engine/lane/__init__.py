"""A run serves many tables side by side, each until it has caught up."""
