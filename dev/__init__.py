"""For developers of this suite only: emulated boards, fuzzing, pictures, load tests."""
