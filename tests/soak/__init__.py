"""A long run that kills the server again and again under all kinds of jobs. See `__main__`."""
