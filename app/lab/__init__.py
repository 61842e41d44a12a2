"""The Lab: the way to the pages that compare and measure."""
