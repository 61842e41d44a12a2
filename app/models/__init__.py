"""The models page: lists models with their size and memory; downloads, packs, loads and deletes them."""
