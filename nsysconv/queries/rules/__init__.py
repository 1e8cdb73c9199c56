"""Rules: each looks for one known way to waste time, and its rows are the findings.

What each looks for, and where it differs from the rule of this name of `nsys analyze`: docs/rules.md.
"""
