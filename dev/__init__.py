"""For developers of this suite only: emulated boards and pictures."""
