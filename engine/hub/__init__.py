"""What ``engine.hub.download`` is made of: files on record, their bytes, their hashes, and what can go wrong."""
