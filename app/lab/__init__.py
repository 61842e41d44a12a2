"""The Lab: a card for each page that compares or measures."""
