"""The Race page: two to four lanes answer the same prompt, shown side by side."""
