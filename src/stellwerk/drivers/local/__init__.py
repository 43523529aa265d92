"""Runs work on this machine, as this user, through the runtime's agent."""
