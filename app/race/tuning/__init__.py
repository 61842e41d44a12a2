"""Races over many prompts: figures with intervals, a plot and the single answers."""
