"""What cannot be planned, in one sentence."""

from tightwire.algebra.errors import TightwireError


class PlanError(TightwireError, ValueError):
    """A model, a cluster and a recipe that do not go together, or numbers that no machine has."""
