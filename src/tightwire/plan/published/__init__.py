"""What papers printed and what this model gives from their stated inputs: the tests that nobody could tune it to.

paper.py    a paper, its claims, and how they are judged
page.py     docs/published.md
*.py        one paper each
"""
