"""The tables that `nsys stats` prints, for every source: by its names, with its columns and rounding.

Formulas, and the few deliberate deviations: docs/nsys-stats.md.
"""
