"""What can be tried of GPU memory only where there is a GPU: `make gpu`."""
