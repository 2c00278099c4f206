"""One command, one file. Nothing here imports torch until a command runs: `tightwire --help` answers at once."""
