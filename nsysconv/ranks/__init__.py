"""Reports over ranks: many profiles' rows as few, and where each row was measured."""
