"""Files written by earlier versions are read by this one, to the bit. Never rewrite them: add another.

Made by ``python -m tests.compress.artifact.test_golden NAME``: NAME.twz, and NAME.json with the CRC-32 of each tensor.
"""

from __future__ import annotations

import json
import sys
import zlib
from pathlib import Path

import pytest

from tests.compress.artifact.making import all_kinds, small
from tightwire.compress.artifact import Artifact, read, save, write

GOLDEN = Path(__file__).parents[2] / "golden"
MAKERS = {"v1-small": small, "v1-all-kinds": all_kinds}


def sums(artifact: Artifact) -> dict[str, list[object]]:
    return {
        name: [list(tensor.shape), str(tensor.dtype), zlib.crc32(tensor.numpy().tobytes())]
        for name, tensor in artifact.state_dict().items()
    }


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.twz")), ids=lambda path: path.stem)
def test_files_of_earlier_versions(path: Path) -> None:
    assert sums(read(path)) == json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_this_version_still_writes_the_same(name: str) -> None:
    """A smaller encoding is no new version: then make a new golden file beside the old one, and compare with that."""
    assert write(MAKERS[name]()) == (GOLDEN / f"{name}.twz").read_bytes()


if __name__ == "__main__":
    made = MAKERS[sys.argv[1]]()
    save(made, GOLDEN / f"{sys.argv[1]}.twz")
    (GOLDEN / f"{sys.argv[1]}.json").write_text(json.dumps(sums(made), indent=1) + "\n", encoding="utf-8")
