"""Tools of MCP servers: their declarations, connections and calls. Knows no model, and neither Qt nor torch."""
