"""Removes what is kept too long, and nothing that is referred to."""
