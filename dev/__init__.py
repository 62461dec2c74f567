"""For developers of this suite only: emulated boards, pictures, the load of a large report."""
