"""Lets `python -m stellwerk.cli` be `stw`."""

from stellwerk.cli.main import main

if __name__ == "__main__":
    main()
