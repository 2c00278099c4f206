"""The folder in which a network is being shrunk: every finished stage as one safetensors file and one JSON file.

    plan.json                              what was asked for, of which network
    1-prune.safetensors  1-prune.json      the network after the stage; its figures
    2-share.safetensors  2-share.json      …
    3-polish.unfinished                    a training that was cut off (`unfinished`)

A stage is done when its JSON is there; both files are written beside their place and moved into it, the tensors first.
A killed process leaves finished stages, and the next one begins after the last of them, within the training of the
stage after it if that was cut off.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from tightwire.compress.errors import CompressError
from tightwire.compress.shared_weights import SharedWeights, code_type
from tightwire.files import write_json, writing

_MODEL, _CODE, _BOOK = "model/", "code/", "codebook/"


@dataclass(frozen=True)
class Work:
    """A work folder; None as a folder keeps nothing."""

    folder: Path | None

    def begin(self, plan: str, digest: str) -> None:
        """Take the folder for this plan; refuse one in which another was begun."""
        if self.folder is None:
            return
        path = self.folder / "plan.json"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            if path.exists():
                if json.loads(path.read_text(encoding="utf-8")).get("digest") != digest:
                    raise CompressError(
                        f"{self.folder} holds the work of another plan or network; name another --work, or --overwrite"
                    )
                return
            write_json(path, {"digest": digest, "plan": json.loads(plan)}, indent=1)
        except (OSError, json.JSONDecodeError) as error:
            raise CompressError(f"{self.folder} cannot be used for work ({error}); name another --work") from None

    def load(self, stage: str, model: nn.Module) -> tuple[dict[str, Any], dict[str, SharedWeights]] | None:
        """The figures and shared weights of a finished stage, its weights put into ``model``; None before that."""
        if self.folder is None or not (self.folder / f"{stage}.json").exists():
            return None
        try:
            figures: dict[str, Any] = json.loads((self.folder / f"{stage}.json").read_text(encoding="utf-8"))
            tensors = load_file(self.folder / f"{stage}.safetensors")
            model.load_state_dict({n.removeprefix(_MODEL): t for n, t in tensors.items() if n.startswith(_MODEL)})
        except (OSError, ValueError, RuntimeError, SafetensorError) as error:
            raise CompressError(f"stage {stage} in {self.folder} cannot be read ({error}); --overwrite it") from None
        return figures, _shared(tensors, figures.get("shapes", {}))

    def unfinished(self, stage: str) -> Path | None:
        """Where a stage's training is kept until it has ended."""
        return None if self.folder is None else self.folder / f"{stage}.unfinished"

    def save(
        self, stage: str, model: nn.Module, figures: Mapping[str, Any], shared: Mapping[str, SharedWeights]
    ) -> None:
        """Keep a finished stage."""
        if self.folder is None:
            return
        tensors = {_MODEL + name: t.detach().cpu().contiguous().clone() for name, t in model.state_dict().items()}
        for name, tensor in shared.items():
            tensors[_CODE + name] = torch.from_numpy(tensor.code_N.astype(np.int32))
            tensors[_BOOK + name] = torch.from_numpy(tensor.codebook_K.copy())
        shapes = {name: list(tensor.shape) for name, tensor in shared.items()}
        with writing(self.folder / f"{stage}.safetensors") as partial:
            save_file(tensors, partial)
        write_json(self.folder / f"{stage}.json", {**figures, "shapes": shapes}, indent=1)


def _shared(tensors: Mapping[str, Tensor], shapes: Mapping[str, list[int]]) -> dict[str, SharedWeights]:
    found = {}
    for name, shape in shapes.items():
        book = tensors[_BOOK + name].numpy()
        code: Any = tensors[_CODE + name].numpy().astype(code_type(len(book)))
        found[name] = SharedWeights(tuple(shape), code, book)
    return found
