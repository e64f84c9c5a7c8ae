"""``python -m warpmill``: the command line."""

from warpmill.cli import main

if __name__ == "__main__":
    main()
