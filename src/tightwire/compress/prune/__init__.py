"""Pruning: which weights go, when, and how they stay away.

patterns.py     in which groups: fine, vector, kernel, filter, any block, 2 of 4
choose.py       how many: by quality × deviation, by density, by one threshold for all layers
schedules.py    when: at once, in rounds, along a cubic
masks.py        what is pruned stays zero while an optimizer works
sensitivity.py  how much each layer bears
removal.py      filters taken out for good, with everything that depends on them
"""

from tightwire.compress.prune.choose import by_density, by_quality, globally, layer_adaptive
from tightwire.compress.prune.gradual import Gradual, Target
from tightwire.compress.prune.masks import Masks, density_of, hold, prunable
from tightwire.compress.prune.patterns import Blocks, Pattern, block, filters, fine, kernels, n_of_m, vectors
from tightwire.compress.prune.schedules import Schedule, cubic, in_rounds, one_shot
from tightwire.compress.prune.sensitivity import Point, scan

__all__ = [
    "Blocks", "Gradual", "Masks", "Pattern", "Point", "Schedule", "Target", "block", "by_density", "by_quality",
    "cubic", "density_of", "filters", "fine", "globally", "hold", "in_rounds", "kernels", "layer_adaptive", "n_of_m",
    "one_shot", "prunable", "scan", "vectors",
]  # fmt: skip
