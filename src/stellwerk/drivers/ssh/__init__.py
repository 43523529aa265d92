"""Runs work on machines that are reached over SSH and have nothing but sshd, a shell and Python."""
