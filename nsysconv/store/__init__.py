"""Stores: made, filled, read. The only place that runs SQL on a store."""
