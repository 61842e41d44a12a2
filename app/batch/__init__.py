"""What the pages that run many items one after the other share."""
