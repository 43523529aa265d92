"""One verb each, loaded when it is called."""
