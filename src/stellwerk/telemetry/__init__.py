"""Keeps what a run tells of itself while it goes on: bounded, and apart from the journal."""
