"""What a table has consumed, and the arithmetic of batches, receipts and replays."""
