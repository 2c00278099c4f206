"""The one loop that executes any recipe over any link, and the public three-line API on top of it."""
