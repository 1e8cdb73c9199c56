"""What holds a run back: rules over the time line, one module per family, their words in rules.toml."""
