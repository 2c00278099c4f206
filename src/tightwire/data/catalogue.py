"""`load`: a data set by name."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

from tightwire.data.errors import DataError
from tightwire.data.names import describe
from tightwire.data.values import Data


def load(name: str, folder: str | Path | None = None, **options: Any) -> Data:
    """A data set of the catalogue, or your own as ``module:function``.

    ``folder`` holds the files (or is the one file, where there is one); ``options`` are those of the reader:

        digits                       shape="flat" | "image", seed=0
        cifar10                      augment="none" | "crop-flip"
        text                         columns=20, bptt=35, at_least=1
        speech                       states=50, normalise="global" | "speaker"

    >>> data = load("digits")
    >>> data.inputs, data.classes, len(data.train), len(data.test)
    ((64,), 10, 1438, 359)
    """
    if ":" in name:
        if folder is not None:
            raise DataError(
                f"{name} is your own function and gets no folder ({folder}); let it know where its files are"
            )
        own = import_module("tightwire.data.yours")
        found: Data = own.yours(name, options)
        return found
    module, function = describe(name).reader.split(":")
    reader = getattr(import_module(module), function)
    known = [key for key, p in signature(reader).parameters.items() if p.kind is Parameter.KEYWORD_ONLY]
    for option in options:
        if option not in known:
            raise DataError(f"{name} has no option {option!r}; it has {', '.join(known) or 'none'}")
    data: Data = reader(None if folder is None else Path(folder), **options)
    return data
