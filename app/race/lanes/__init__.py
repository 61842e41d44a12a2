"""The choice of lanes: their chips, the fields of one lane, and facts about their models."""
