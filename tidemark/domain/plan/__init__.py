"""What a table must become: for its writers, and for an edited contract. Pure."""
