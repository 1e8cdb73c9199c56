"""Shared parts of the importers of tables that a profiler printed, as users keep them."""
