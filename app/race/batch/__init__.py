"""Many prompts in all lanes, one race after the other: figures with their intervals, a plot, single answers."""
