"""Asset checks: what each finds, and when its finding is told, repeated or left out."""
