"""The command line: reads what a person types, asks the server, and shows the answer."""
