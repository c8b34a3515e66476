"""Where every record is: reconciliation offset by offset, and the fate of one record."""
