"""The way of one gradient in docs/architecture.md is the way it really goes."""

import re
import sys
from pathlib import Path
from types import FrameType

import torch
from torch import nn

from tightwire.codecs.topk import topk
from tightwire.exchanges.gather import gather
from tightwire.memories.momentum import momentum_correction
from tightwire.recipes import recipe
from tightwire.run.join import join
from tightwire.run.together import together

ROOT = Path(__file__).parents[2]


def documented() -> list[str]:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    section = page.split("## The way of one gradient")[1].split("\n## ")[0]
    return re.findall(r"^\d+\. `([a-z_/.]+)`", section, flags=re.MULTILINE)


def walked() -> list[str]:
    """The files entered in one step, by first visit."""
    visited: list[str] = []

    def note(frame: FrameType, kind: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if kind == "call" and "tightwire" in path.parts and "src" in path.parts and frame.f_code.co_name != "<lambda>":
            file = path.relative_to(ROOT / "src/tightwire").as_posix()
            if file not in visited:
                visited.append(file)

    def one(rank: int) -> None:
        model = nn.Linear(40, 40, bias=False)
        chosen = recipe("dgc", memory=momentum_correction(), codec=topk(0.01), exchange=gather())
        with join(chosen, model, torch.optim.SGD(model.parameters(), lr=0.1)) as wire:
            for step in range(3):
                loss = model(torch.ones(1, 40)).sum()
                if rank == 0 and step == 2:
                    sys.setprofile(note)
                loss.backward()
                wire.step()
                sys.setprofile(None)

    together(2, one)
    return visited


def test_the_documented_way_is_the_real_one() -> None:
    wanted = documented()
    assert len(wanted) == 8
    assert [file for file in walked() if file in wanted] == wanted


def test_every_file_named_on_the_page_exists() -> None:
    page = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page):
        assert (ROOT / "src/tightwire" / name).exists() or (ROOT / name).exists(), name
