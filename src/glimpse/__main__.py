"""`python -m glimpse` is the command `glimpse`."""

from glimpse.cli import main

if __name__ == "__main__":
    main()
