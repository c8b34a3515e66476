"""Jobs and schedules: asset selections, and the verbs of an operator."""
