"""How tables stand: lag, freshness, quarantine. Reads only, and needs no Spark."""
