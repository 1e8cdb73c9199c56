"""Reports of Nsight Systems (`.nsys-rep`, `.qdrep`) as the tables of nsys' own export.

What the tables mean is written once, in `nsys_sqlite`. docs/formats/nsys-rep.md describes the format.
"""
