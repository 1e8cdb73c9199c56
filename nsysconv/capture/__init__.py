"""Runs a profiler for a job script: the user's own line, on the ranks that are asked for.

command.py reads the line, choice.py says which ranks, patterns.py completes names, running.py runs it
and passes signals on, exporting.py and placing.py bring home what it left; session.py is all of it.
"""

PROFILERS = ("nsys", "nvprof")
"""The commands of profilers that can be run; command.py has what their options take."""
