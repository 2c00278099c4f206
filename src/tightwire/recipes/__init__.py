"""One file a paper; `catalogue` lists them, `recipe(…)` makes your own."""

from tightwire.recipes.asgd import asgd
from tightwire.recipes.catalogue import CATALOGUE, by_name
from tightwire.recipes.ddl import ddl
from tightwire.recipes.dgc import dgc
from tightwire.recipes.diloco import diloco
from tightwire.recipes.firecaffe import firecaffe
from tightwire.recipes.gossip_pull import gossip_pull
from tightwire.recipes.gossip_push import gossip_push
from tightwire.recipes.large_minibatch import large_minibatch
from tightwire.recipes.lars import lars
from tightwire.recipes.layerwise import layerwise
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.make import recipe
from tightwire.recipes.model_average import model_average
from tightwire.recipes.one_bit import one_bit
from tightwire.recipes.one_shot_average import one_shot_average
from tightwire.recipes.post_local_sgd import post_local_sgd
from tightwire.recipes.powersgd import powersgd
from tightwire.recipes.sync_easgd import sync_easgd
from tightwire.recipes.sync_sgd import sync_sgd

__all__ = [
    "CATALOGUE",     "asgd",     "by_name",     "ddl",     "dgc",     "diloco",     "firecaffe",
    "gossip_pull",     "gossip_push",     "large_minibatch",     "lars",     "layerwise",     "local_sgd",
    "model_average",     "one_bit",     "one_shot_average",     "post_local_sgd",     "powersgd",
    "recipe",     "sync_easgd",     "sync_sgd",
]  # fmt: skip
