"""Stores in SQLite files. Nothing is loaded here: the process of a query needs little of it."""
