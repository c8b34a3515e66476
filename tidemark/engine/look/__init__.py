"""How tables stand: lag, freshness, quarantine, marts.

Nothing is written to a table but by `corrections.note`; `sightings` and `topics` keep caches under the home.
"""
