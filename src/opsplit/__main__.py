"""`python -m opsplit`."""

from opsplit.cli import main

if __name__ == "__main__":
    main()
