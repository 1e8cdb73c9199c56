"""Arithmetic on columns: GPU operations, launch links, unions, gaps, nesting, slices.

numpy in, numpy out; what each quantity means is defined in docs/definitions/.
"""
