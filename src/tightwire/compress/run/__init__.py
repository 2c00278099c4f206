"""Inference from the compressed form: a network whose layers compute from codes and codebooks.

build(model, {"fc.weight": SharedWeights(…)}, example=x)    the network, each layer in its fastest form
choices(model)                                              which form that is, and what was measured
"""

from tightwire.compress.run.build import build, choices
from tightwire.compress.run.form import FORMS, Choice, FormName
from tightwire.compress.run.load import load
from tightwire.compress.run.remember import Remembered, default_path

__all__ = ["FORMS", "Choice", "FormName", "Remembered", "build", "choices", "default_path", "load"]
