"""Other tools that do a part of the same, run in an environment of their own."""
