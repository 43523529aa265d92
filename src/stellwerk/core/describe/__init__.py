"""Turns what a person wrote (task files, batch scripts, flags) into tasks, or says why not."""
