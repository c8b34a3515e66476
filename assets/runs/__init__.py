"""What happens in a run's steps, and what its end says: from the engine's outcomes to results, checks and failures."""
