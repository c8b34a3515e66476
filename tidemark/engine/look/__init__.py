"""How tables stand: lag, freshness, quarantine, marts. Only `note` writes."""
