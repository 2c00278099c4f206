"""``python -m tightwire``, also under torchrun."""

from tightwire.cli.app import main

if __name__ == "__main__":
    main()
