"""One file a paper; `catalogue` lists them, `recipe(…)` makes your own."""

from tightwire.recipes.adag import adag
from tightwire.recipes.agn import agn
from tightwire.recipes.asgd import asgd
from tightwire.recipes.async_easgd import async_easgd
from tightwire.recipes.async_measgd import async_measgd
from tightwire.recipes.asysg_con import asysg_con
from tightwire.recipes.asysg_incon import asysg_incon
from tightwire.recipes.backup_workers import backup_workers
from tightwire.recipes.bounded_delay import bounded_delay
from tightwire.recipes.catalogue import CATALOGUE, by_name
from tightwire.recipes.ddl import ddl
from tightwire.recipes.decoupled_momentum import decoupled_momentum
from tightwire.recipes.dgc import dgc
from tightwire.recipes.diloco import diloco
from tightwire.recipes.downpour import downpour
from tightwire.recipes.dynsgd import dynsgd
from tightwire.recipes.eamsgd import eamsgd
from tightwire.recipes.easgd import easgd
from tightwire.recipes.ef_sign import ef_sign
from tightwire.recipes.firecaffe import firecaffe
from tightwire.recipes.fixed_point import fixed_point
from tightwire.recipes.gossip_pull import gossip_pull
from tightwire.recipes.gossip_push import gossip_push
from tightwire.recipes.gpipe import gpipe
from tightwire.recipes.half import half
from tightwire.recipes.hardsync import hardsync
from tightwire.recipes.hogwild import hogwild
from tightwire.recipes.hogwild_easgd import hogwild_easgd
from tightwire.recipes.interleaved import interleaved
from tightwire.recipes.large_minibatch import large_minibatch
from tightwire.recipes.lars import lars
from tightwire.recipes.layerwise import layerwise
from tightwire.recipes.local_sgd import local_sgd
from tightwire.recipes.make import recipe
from tightwire.recipes.mdownpour import mdownpour
from tightwire.recipes.model_average import model_average
from tightwire.recipes.omnivore import omnivore
from tightwire.recipes.one_bit import one_bit
from tightwire.recipes.one_forward_one_backward import one_forward_one_backward
from tightwire.recipes.one_shot_average import one_shot_average
from tightwire.recipes.pipedream import pipedream
from tightwire.recipes.pipedream_2bw import pipedream_2bw
from tightwire.recipes.poseidon import poseidon
from tightwire.recipes.post_local_sgd import post_local_sgd
from tightwire.recipes.powersgd import powersgd
from tightwire.recipes.project_adam import project_adam
from tightwire.recipes.qsgd import qsgd
from tightwire.recipes.round_robin_easgd import round_robin_easgd
from tightwire.recipes.softsync import softsync
from tightwire.recipes.sparse_loco import sparse_loco
from tightwire.recipes.ssp import ssp
from tightwire.recipes.staleness_aware import staleness_aware
from tightwire.recipes.strom import strom
from tightwire.recipes.sync_easgd import sync_easgd
from tightwire.recipes.sync_sgd import sync_sgd
from tightwire.recipes.terngrad import terngrad
from tightwire.recipes.top_k import top_k
from tightwire.recipes.weird_trick import weird_trick
from tightwire.recipes.zero_bubble import zero_bubble

__all__ = [
    "CATALOGUE", "adag", "agn", "asgd", "async_easgd", "async_measgd", "asysg_con", "asysg_incon", "backup_workers",
    "bounded_delay", "by_name", "ddl", "decoupled_momentum", "dgc", "diloco", "downpour", "dynsgd", "eamsgd", "easgd",
    "ef_sign", "firecaffe", "fixed_point", "gossip_pull", "gossip_push", "gpipe", "half", "hardsync", "hogwild",
    "hogwild_easgd", "interleaved", "large_minibatch", "lars", "layerwise", "local_sgd", "mdownpour", "model_average",
    "omnivore",
    "one_bit", "one_forward_one_backward", "one_shot_average", "pipedream", "pipedream_2bw", "poseidon",
    "post_local_sgd", "powersgd", "project_adam", "qsgd", "recipe", "round_robin_easgd", "softsync", "sparse_loco",
    "ssp", "staleness_aware", "strom", "sync_easgd", "sync_sgd", "terngrad", "top_k", "weird_trick", "zero_bubble",
]  # fmt: skip
