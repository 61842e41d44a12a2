"""Typed answers read from one denoising step: questions, how they are asked, where they are read, what it comes to."""
