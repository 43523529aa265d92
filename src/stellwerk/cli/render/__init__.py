"""Turns values into lines of text: pure functions, so that a test can show what they say."""
