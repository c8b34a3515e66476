"""`tidemark demo`: everything from nothing, with live traffic and a tour."""
