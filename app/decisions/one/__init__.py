"""Questions about one state: the fields, the answers, and the canvas that they were read from."""
