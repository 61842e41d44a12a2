"""The models page: what there is, what it takes, and downloading, packing, loading and deleting it."""
