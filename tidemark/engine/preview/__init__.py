"""What a contract would do before it does it: plans, samples, proposals. Reads only."""
