"""Typed answers read from one denoising step: the questions, their wording, the canvas layout and the results."""
