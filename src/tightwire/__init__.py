"""tightwire: train deep networks over narrow wires.

    import tightwire as tw
    with tw.join(tw.recipes.dgc(density=0.001), model, optimizer) as wire:
        for x, y in wire.shard(loader):
            loss_fn(model(x), y).backward()
            wire.step()

Importing this starts nothing and imports nothing heavy; torch comes with the first name that needs it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tightwire import compress, recipes, testing
    from tightwire.algebra.errors import TightwireError
    from tightwire.algebra.recipe import forever, parts, phases, tiers, ways
    from tightwire.run.ddp import ddp_hook
    from tightwire.run.join import join
    from tightwire.run.settings import Settings
    from tightwire.run.together import together
    from tightwire.run.wire import Wire

__version__ = "0.1.0"
__all__ = [
    "Settings",
    "TightwireError",
    "Wire",
    "compress",
    "ddp_hook",
    "forever",
    "join",
    "parts",
    "phases",
    "recipes",
    "testing",
    "tiers",
    "together",
    "ways",
]

_HOME = {
    "Settings": "tightwire.run.settings",
    "TightwireError": "tightwire.algebra.errors",
    "Wire": "tightwire.run.wire",
    "ddp_hook": "tightwire.run.ddp",
    "forever": "tightwire.algebra.recipe",
    "join": "tightwire.run.join",
    "parts": "tightwire.algebra.recipe",
    "phases": "tightwire.algebra.recipe",
    "tiers": "tightwire.algebra.recipe",
    "together": "tightwire.run.together",
    "ways": "tightwire.algebra.recipe",
}


def __getattr__(name: str) -> Any:
    if name in ("compress", "recipes", "testing"):
        return import_module(f"tightwire.{name}")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'tightwire' has no attribute {name!r}")
