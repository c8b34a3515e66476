"""One microbatch: plan, read, decode, stage, audit, quarantine, publish. `microbatch.py` reads from top to bottom."""
