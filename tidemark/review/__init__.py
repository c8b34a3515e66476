"""The governance review pack: what reviewers ask of a table, as one HTML page without any network, or as JSON."""
