"""Checkpoints: complete or absent, checked before use, never damaged by a failure."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.worlds import processes
from tightwire.algebra.errors import CheckpointError
from tightwire.algebra.recipe import AnyRecipe
from tightwire.recipes import dgc, one_bit, sync_sgd
from tightwire.run import checkpoint
from tightwire.run.join import join
from tightwire.run.together import together
from tightwire.run.tree import put_together, take_apart
from tightwire.run.wire import Wire


def model_and_optimizer(width: int = 4) -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, width), nn.BatchNorm1d(width), nn.Dropout(0.5), nn.Linear(width, 2))
    return model, torch.optim.AdamW(model.parameters(), lr=0.01)


def step(wire: Wire) -> None:
    wire.model(torch.full((4, 3), wire.rank + 1.0) + torch.randn(4, 3)).square().sum().backward()
    wire.step()


def train_and_save(folder: Path, recipe: AnyRecipe | None = None, steps: int = 3) -> Path:
    model, optimizer = model_and_optimizer()
    with join(recipe or sync_sgd(), model, optimizer) as wire:
        for _ in range(steps):
            step(wire)
        return wire.save(folder)


def test_dropout_optimizer_and_norms_go_on_bit_for_bit(tmp_path: Path) -> None:
    def straight(rank: int) -> list[torch.Tensor]:
        model, optimizer = model_and_optimizer()
        torch.manual_seed(rank)
        with join(one_bit(), model, optimizer) as wire:
            for number in range(6):
                if number == 3:
                    wire.save(tmp_path)
                step(wire)
            return [t.clone() for t in model.state_dict().values()]

    def resumed(rank: int) -> list[torch.Tensor]:
        model, optimizer = model_and_optimizer()
        with join(one_bit(), model, optimizer) as wire:
            assert wire.load(tmp_path) == []
            assert wire.clock == 3
            for _ in range(3):
                step(wire)
            return [t.clone() for t in model.state_dict().values()]

    for one, two in zip(together(2, straight), together(2, resumed), strict=True):
        for a, b in zip(one, two, strict=True):
            assert torch.equal(a, b)


@pytest.mark.processes
def test_processes_save_and_load(tmp_path: Path) -> None:
    paths = processes(2, train_and_save, tmp_path, dgc(0.3, momentum=0.0))
    assert paths[0] == paths[1] == tmp_path / "step-00000003"
    assert {p.name for p in paths[0].iterdir()} == {
        "world.json", "rank-00000.json", "rank-00000.safetensors", "rank-00001.json", "rank-00001.safetensors",
    }  # fmt: skip


def load(folder: Path, width: int = 4, recipe: AnyRecipe | None = None) -> list[str]:
    model, optimizer = model_and_optimizer(width)
    with join(recipe or sync_sgd(), model, optimizer) as wire:
        return wire.load(folder)


def test_the_newest_complete_checkpoint_is_found(tmp_path: Path) -> None:
    train_and_save(tmp_path, steps=2)
    newest = train_and_save(tmp_path, steps=5)
    (tmp_path / "step-00000009").mkdir()
    (tmp_path / "step-00000008.partial").mkdir()
    assert checkpoint.latest(tmp_path) == newest


def test_a_missing_checkpoint_says_so(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="no complete checkpoint"):
        load(tmp_path)


def test_another_model_is_refused(tmp_path: Path) -> None:
    train_and_save(tmp_path)
    with pytest.raises(CheckpointError, match="another model"):
        load(tmp_path, width=5)


def test_another_recipe_is_refused(tmp_path: Path) -> None:
    train_and_save(tmp_path)
    with pytest.raises(CheckpointError, match="another recipe"):
        load(tmp_path, recipe=one_bit())


@pytest.mark.parametrize("name", ["rank-00000.safetensors", "rank-00000.json"])
def test_a_damaged_file_is_refused(tmp_path: Path, name: str) -> None:
    path = train_and_save(tmp_path) / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(CheckpointError, match=f"{name} is damaged"):
        load(tmp_path)


def test_a_missing_file_and_a_newer_format_are_refused(tmp_path: Path) -> None:
    path = train_and_save(tmp_path)
    manifest = json.loads((path / "world.json").read_text())
    (path / "world.json").write_text(json.dumps({**manifest, "format": 99}))
    with pytest.raises(CheckpointError, match="format 99"):
        load(tmp_path)
    (path / "world.json").write_text(json.dumps(manifest))
    (path / "rank-00000.json").unlink()
    with pytest.raises(CheckpointError, match="missing"):
        load(tmp_path)


def test_a_failed_write_on_one_rank_leaves_the_last_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = together(2, lambda rank: train_and_save(tmp_path))[0]
    real = checkpoint.save_file

    def full_disk(tensors: dict[str, torch.Tensor], path: Path) -> None:
        if path.name == "rank-00001.safetensors":
            raise OSError(28, "No space left on device")
        real(tensors, path)

    monkeypatch.setattr(checkpoint, "save_file", full_disk)

    def one(rank: int) -> str:
        with pytest.raises(CheckpointError, match=r"rank 1: .*No space left on device.*untouched") as caught:
            train_and_save(tmp_path, steps=4)
        return str(caught.value)

    assert len(together(2, one)) == 2
    assert [p.name for p in tmp_path.iterdir()] == [good.name]
    monkeypatch.undo()
    assert together(2, lambda rank: load(tmp_path)) == [[], []]


def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    with pytest.raises(CheckpointError, match="no checkpoint was written"):
        train_and_save(blocker / "inside")


def test_saving_again_at_the_same_step_replaces(tmp_path: Path) -> None:
    first = train_and_save(tmp_path)
    shutil.copytree(first, tmp_path / "copy")
    assert train_and_save(tmp_path) == first
    assert load(tmp_path) == []


json_like = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.text(max_size=5) | st.integers(0, 9), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(json_like)
def test_trees_come_back_as_they_went(tree: object) -> None:
    data, tensors = take_apart({"tree": tree, "tensor": torch.ones(2)})
    back = put_together(json.loads(json.dumps(data)), tensors)
    assert back["tree"] == tree
    assert torch.equal(back["tensor"], torch.ones(2))


def test_trees_refuse_what_they_cannot_keep() -> None:
    with pytest.raises(CheckpointError, match="holds a object"):
        take_apart({"x": object()})
