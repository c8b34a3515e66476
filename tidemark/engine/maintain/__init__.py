"""Compaction, snapshot expiry, orphan files, retention: each plans first, then acts."""
