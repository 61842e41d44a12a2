"""Questions about one state: what is asked, what comes of it, the canvas that it was read from."""
