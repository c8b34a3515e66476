"""ConfigurableResources that open the engine's clients."""
