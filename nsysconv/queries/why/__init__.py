"""Why one event began when it did: its row, its columns and its words."""
