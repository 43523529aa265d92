"""Decides in which steps a change goes over clusters."""
