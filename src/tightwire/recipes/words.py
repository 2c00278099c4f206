"""Parts as words, so that a recipe can be given on a command line.

sync-sgd:exchange=tree   ddl:dims=2x4   sync-sgd:grain=4 (buckets of 4 MiB; or tensor, whole)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, signature

from tightwire.algebra.errors import RecipeError
from tightwire.algebra.grain import Grain, bucket, tensor, whole
from tightwire.exchanges.allreduce import AllReduce, allreduce, halving_doubling, multi_ring, ring, tree

EXCHANGES: dict[str, AllReduce] = {
    "native": allreduce(),
    "ring": ring(),
    "tree": tree(),
    "halving-doubling": halving_doubling(),
    "multi-ring": multi_ring(),
}
GRAINS: dict[str, Grain] = {"tensor": tensor(), "whole": whole()}
_PLAIN = (bool, int, float, str, type(None))


def spoken(
    make: Callable[..., object], name: str, arguments: Mapping[str, object]
) -> tuple[tuple[object, ...], dict[str, object]]:
    """Arguments for ``make`` from words: a part where the parameter is a part, numbers where it takes several.

    >>> def make(*dims, exchange=ring(), tau=1): ...
    >>> spoken(make, "it", {"dims": "2x4", "exchange": "tree", "tau": 3})
    ((2, 4), {'exchange': AllReduce(graph='tree', native=None, dims=None), 'tau': 3})
    """
    known = signature(make).parameters
    unknown = [key for key in arguments if key not in known]
    if unknown:
        listed = ", ".join(known) or "none"
        raise RecipeError(f"{name} does not take {', '.join(unknown)}; its parameters are: {listed}")
    several: tuple[object, ...] = ()
    named: dict[str, object] = {}
    for key, value in arguments.items():
        if known[key].kind is Parameter.VAR_POSITIONAL:
            several = _numbers(name, key, value)
        else:
            named[key] = _one(name, known[key], value)
    return several, named


def _one(name: str, parameter: Parameter, value: object) -> object:
    usual = parameter.default
    if isinstance(usual, Grain):
        return _grain(name, parameter.name, value)
    if not isinstance(value, str) or isinstance(usual, str) or usual is None:
        return value
    if isinstance(usual, AllReduce):
        if value not in EXCHANGES:
            raise RecipeError(f"{name}:{parameter.name}={value}: give one of {', '.join(EXCHANGES)}")
        return EXCHANGES[value]
    if isinstance(usual, _PLAIN):
        raise RecipeError(f"{name}:{parameter.name}={value}: give a number, as {usual}")
    raise RecipeError(f"{name}:{parameter.name}={value}: this takes a part, which only a script can make; leave it out")


def _grain(name: str, key: str, value: object) -> Grain:
    match value:
        case Grain():
            return value
        case int() | float() if value > 0:
            return bucket(value, min(value, 1.0))
        case str() if value in GRAINS:
            return GRAINS[value]
    raise RecipeError(f"{name}:{key}={value}: give the MiB of a bucket, such as 4, or one of {', '.join(GRAINS)}")


def _numbers(name: str, key: str, value: object) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in str(value).split("x"))
    except ValueError:
        raise RecipeError(f"{name}:{key}={value}: give numbers joined by x, as 2x4") from None


def number_or_word(text: str) -> object:
    """A number, a truth value or nothing, if the text is one; else the text.

    >>> [number_or_word(text) for text in ("3", "0.5", "none", "tree")]
    [3, 0.5, None, 'tree']
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False, "none": None}.get(text.lower(), text)


def say(value: object) -> str:
    """A parameter's value as it can be given; empty if only a script can make it.

    >>> say(tree()), say(bucket(4)), say(0.5)
    ('tree', '4', '0.5')
    """
    if isinstance(value, Grain):
        return next((word for word, part in GRAINS.items() if part == value), f"{value.nbytes / 2**20:g}")
    if isinstance(value, AllReduce):
        return next((word for word, part in EXCHANGES.items() if part == value), "")
    return str(value) if isinstance(value, _PLAIN) else ""
