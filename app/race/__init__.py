"""The Race page: one prompt by two to four lanes, beside each other."""
