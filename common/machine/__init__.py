"""The machine that a sample runs on: its clocks, temperatures, power, and settings."""
