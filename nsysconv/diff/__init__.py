"""Comparison of two runs: two sides' reports in, one report out, and whether to trust it."""
