"""Where a search is kept while it is under way: one safetensors file, words beside tensors, whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from tightwire.compress.errors import CompressError
from tightwire.files import writing


@dataclass(frozen=True)
class Keep:
    """A checkpoint in a file; ``digest`` names the search, so that another one does not go on with it."""

    path: Path
    digest: str = ""

    def save(self, tensors: Mapping[str, Tensor], words: str) -> None:
        """Replace what is kept."""
        with writing(self.path) as partial:
            save_file({n: t.contiguous() for n, t in tensors.items()}, partial, {"words": words, "digest": self.digest})

    def load(self) -> tuple[dict[str, Tensor], str] | None:
        """What is kept, or None; refuses what belongs to another search, or cannot be read."""
        if not self.path.exists():
            return None
        try:
            with safe_open(self.path, "pt") as opened:
                found: dict[str, str] = opened.metadata() or {}
            tensors = load_file(self.path)
        except (OSError, SafetensorError) as error:
            raise CompressError(f"{self.path} cannot be read ({error}); --overwrite it") from None
        self.check(found.get("digest") == self.digest and "words" in found, "another search")
        return tensors, found["words"]

    def check(self, same: bool, what: str) -> None:
        """Refuse to go on with something else."""
        if not same:
            raise CompressError(f"{self.path} holds {what}; name another --work, or --overwrite")
