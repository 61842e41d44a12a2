"""The calibration of a table's answers, measured on its labels."""
