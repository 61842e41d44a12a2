"""Makes the small models of ``assets/models``: run from a checkout, see the README."""
