"""Asset selections, operator jobs, run tags and schedules."""
