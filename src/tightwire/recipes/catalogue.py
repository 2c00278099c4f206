"""Every recipe by name, with its paper. A file here without an entry below fails a test."""

from __future__ import annotations

from difflib import get_close_matches

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.recipes.adag import entry as adag
from tightwire.recipes.agn import entry as agn
from tightwire.recipes.asgd import entry as asgd
from tightwire.recipes.async_easgd import entry as async_easgd
from tightwire.recipes.async_measgd import entry as async_measgd
from tightwire.recipes.asysg_con import entry as asysg_con
from tightwire.recipes.asysg_incon import entry as asysg_incon
from tightwire.recipes.backup_workers import entry as backup_workers
from tightwire.recipes.bounded_delay import entry as bounded_delay
from tightwire.recipes.ddl import entry as ddl
from tightwire.recipes.decoupled_momentum import entry as decoupled_momentum
from tightwire.recipes.dgc import entry as dgc
from tightwire.recipes.diloco import entry as diloco
from tightwire.recipes.downpour import entry as downpour
from tightwire.recipes.dynsgd import entry as dynsgd
from tightwire.recipes.eamsgd import entry as eamsgd
from tightwire.recipes.easgd import entry as easgd
from tightwire.recipes.ef_sign import entry as ef_sign
from tightwire.recipes.entry import RecipeEntry
from tightwire.recipes.firecaffe import entry as firecaffe
from tightwire.recipes.fixed_point import entry as fixed_point
from tightwire.recipes.gossip_pull import entry as gossip_pull
from tightwire.recipes.gossip_push import entry as gossip_push
from tightwire.recipes.gpipe import entry as gpipe
from tightwire.recipes.half import entry as half
from tightwire.recipes.hardsync import entry as hardsync
from tightwire.recipes.hogwild import entry as hogwild
from tightwire.recipes.hogwild_easgd import entry as hogwild_easgd
from tightwire.recipes.interleaved import entry as interleaved
from tightwire.recipes.large_minibatch import entry as large_minibatch
from tightwire.recipes.lars import entry as lars
from tightwire.recipes.layerwise import entry as layerwise
from tightwire.recipes.local_sgd import entry as local_sgd
from tightwire.recipes.mdownpour import entry as mdownpour
from tightwire.recipes.model_average import entry as model_average
from tightwire.recipes.omnivore import entry as omnivore
from tightwire.recipes.one_bit import entry as one_bit
from tightwire.recipes.one_forward_one_backward import entry as one_forward_one_backward
from tightwire.recipes.one_shot_average import entry as one_shot_average
from tightwire.recipes.pipedream import entry as pipedream
from tightwire.recipes.pipedream_2bw import entry as pipedream_2bw
from tightwire.recipes.poseidon import entry as poseidon
from tightwire.recipes.post_local_sgd import entry as post_local_sgd
from tightwire.recipes.powersgd import entry as powersgd
from tightwire.recipes.project_adam import entry as project_adam
from tightwire.recipes.qsgd import entry as qsgd
from tightwire.recipes.round_robin_easgd import entry as round_robin_easgd
from tightwire.recipes.softsync import entry as softsync
from tightwire.recipes.sparse_loco import entry as sparse_loco
from tightwire.recipes.ssp import entry as ssp
from tightwire.recipes.staleness_aware import entry as staleness_aware
from tightwire.recipes.strom import entry as strom
from tightwire.recipes.sync_easgd import entry as sync_easgd
from tightwire.recipes.sync_sgd import entry as sync_sgd
from tightwire.recipes.terngrad import entry as terngrad
from tightwire.recipes.top_k import entry as top_k
from tightwire.recipes.weird_trick import entry as weird_trick
from tightwire.recipes.words import spoken
from tightwire.recipes.zero_bubble import entry as zero_bubble

CATALOGUE: dict[str, RecipeEntry] = {
    entry.name: entry
    for entry in (
        sync_sgd,
        large_minibatch,
        lars,
        firecaffe,
        ddl,
        local_sgd,
        post_local_sgd,
        one_shot_average,
        model_average,
        diloco,
        sync_easgd,
        gossip_pull,
        gossip_push,
        asgd,
        downpour,
        bounded_delay,
        ssp,
        hardsync,
        softsync,
        staleness_aware,
        asysg_con,
        backup_workers,
        easgd,
        eamsgd,
        mdownpour,
        round_robin_easgd,
        async_easgd,
        async_measgd,
        agn,
        adag,
        dynsgd,
        omnivore,
        hogwild,
        asysg_incon,
        hogwild_easgd,
        half,
        fixed_point,
        qsgd,
        terngrad,
        one_bit,
        ef_sign,
        project_adam,
        poseidon,
        powersgd,
        top_k,
        strom,
        dgc,
        decoupled_momentum,
        sparse_loco,
        layerwise,
        pipedream,
        pipedream_2bw,
        gpipe,
        one_forward_one_backward,
        interleaved,
        zero_bubble,
        weird_trick,
    )
}


def find(name: str) -> RecipeEntry:
    """A line of the catalogue."""
    if name not in CATALOGUE:
        close = get_close_matches(name, CATALOGUE, 1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(CATALOGUE)}"
        raise RecipeError(f"there is no recipe {name!r}; {hint}")
    return CATALOGUE[name]


def by_name(name: str, **arguments: object) -> AnyRecipe:
    """A recipe of the catalogue; arguments may be words, as from a command line.

    >>> by_name("local-sgd", tau=3).schedule.tau
    3
    """
    entry = find(name)
    several, named = spoken(entry.make, name, arguments)
    return entry.make(*several, **named)
