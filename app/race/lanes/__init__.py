"""Which lanes race: chips, the fields of one of them, and what is known of their models."""
