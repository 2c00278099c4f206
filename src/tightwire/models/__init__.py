"""Networks to train: `make(name, inputs=…, classes=…)`. Written here from the papers' tables.

The names stand in `names`, which imports no torch; a network's file is imported when it is asked for.
"""

from tightwire.models.catalogue import make
from tightwire.models.errors import ModelError
from tightwire.models.names import MODELS, ModelName, Wants, describe

__all__ = ["MODELS", "ModelError", "ModelName", "Wants", "describe", "make"]
