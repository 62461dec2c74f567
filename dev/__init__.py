"""What only the developers of this suite need: emulated boards, odd inputs, pictures, load."""
