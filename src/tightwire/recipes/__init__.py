"""One file a paper; `catalogue` lists them, `recipe(…)` makes your own."""

from tightwire.recipes.asgd import asgd
from tightwire.recipes.catalogue import CATALOGUE, by_name
from tightwire.recipes.dgc import dgc
from tightwire.recipes.layerwise import layerwise
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.make import recipe
from tightwire.recipes.one_bit import one_bit
from tightwire.recipes.post_local_sgd import post_local_sgd
from tightwire.recipes.powersgd import powersgd
from tightwire.recipes.sync_sgd import sync_sgd

__all__ = [
    "CATALOGUE", "asgd", "by_name", "dgc", "layerwise", "local_sgd", "one_bit", "post_local_sgd", "powersgd", "recipe",
    "sync_sgd",
]  # fmt: skip
