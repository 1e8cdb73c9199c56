"""What the importers of printed tables share: tables that a profiler printed, as users keep them."""
