"""Turns what a person wrote (task files, batch scripts, flags) into typed tasks, or says why not."""
