"""The `.twz` file: a compressed network in one verified file. `docs/twz.md` has every byte of it.

Artifact ── write ──► bytes ── read ──► Artifact ── build ──► nn.Module (dense), or what `compress.load` makes of it
"""

from tightwire.compress.artifact.build import build
from tightwire.compress.artifact.read import read
from tightwire.compress.artifact.values import Architecture, Artifact, Tensor
from tightwire.compress.artifact.write import save, write

__all__ = ["Architecture", "Artifact", "Tensor", "build", "read", "save", "write"]
