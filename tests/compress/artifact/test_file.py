"""Files: everything comes back to the bit, every byte is accounted for, small networks stay small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given

from tests.compress.artifact.making import all_kinds, shared, small
from tests.compress.code.drawing import Case, cases
from tightwire.compress.artifact import Architecture, Artifact, build, read, save, write
from tightwire.compress.artifact.account import account
from tightwire.compress.artifact.export import to_onnx, to_safetensors
from tightwire.compress.code import CODERS
from tightwire.compress.errors import ArtifactError, CompressError
from tightwire.compress.shared_weights import SharedWeights


@pytest.mark.parametrize("make", [small, all_kinds, lambda: Artifact({})])
def test_everything_comes_back(make: type[Artifact]) -> None:
    artifact = make()
    assert read(write(artifact)).same(artifact)


@given(cases)
def test_any_tensor_comes_back(case: Case) -> None:
    book_K = np.sort(np.random.default_rng(0).normal(size=case.centroids)).astype(np.float32)
    artifact = Artifact({"w": SharedWeights(case.shape, case.code_N, book_K)})
    back = read(write(artifact)).tensors["w"]
    assert isinstance(back, SharedWeights)
    torch.testing.assert_close(back.dense(), artifact.state_dict()["w"], rtol=0, atol=0)


@pytest.mark.parametrize("make", [small, all_kinds])
def test_every_byte_is_accounted_for(make: type[Artifact]) -> None:
    whole = write(make())
    found = account(whole)
    assert (
        found.header_nbytes + found.digest_nbytes + sum(row.nbytes for row in found.rows) == len(whole) == found.nbytes
    )
    assert all(min(r.positions_nbytes, r.codes_nbytes, r.codebook_nbytes, r.plain_nbytes) >= 0 for r in found.rows)
    assert found.ratio == pytest.approx(make().dense_nbytes / len(whole))


def test_what_a_file_costs_beside_its_tensors() -> None:
    """LeNet-300-100's six tensors: the header, checksums and codebooks may take 2% of 16 kB."""
    shapes = ((300, 784), (100, 300), (10, 100))
    tensors = {}
    for number, shape in enumerate(shapes):
        tensors[f"{2 * number + 1}.weight"] = shared(shape, 16, 0.08)
        tensors[f"{2 * number + 1}.bias"] = np.ones(shape[0], np.float32)
    found = account(write(Artifact(tensors, Architecture("lenet-300-100", (1, 28, 28), 10)), coders=[CODERS["rans"]]))
    checksums = 4 * len(found.rows)
    assert found.header_nbytes + found.digest_nbytes + checksums + sum(r.codebook_nbytes for r in found.rows) < 340


def test_rounded_numbers_take_less() -> None:
    plain = np.random.default_rng(0).normal(size=1000).astype(np.float32)
    halves = plain.astype(np.float16).astype(np.float32)
    whole, half = (len(write(Artifact({"b": b}))) for b in (plain, halves))
    assert half < 2000 < whole < 4000
    assert account(write(Artifact({"b": halves}))).rows[0].bits == 16


def test_uniform_codebooks_take_eight_bytes() -> None:
    rows = {row.name: row for row in account(write(all_kinds())).rows}
    assert rows["uniform"].codebook_nbytes == 8
    assert rows["image"].codebook_nbytes == 32


def test_a_network_is_built_and_computes_with_the_decoded_weights() -> None:
    artifact = small()
    model = build(read(write(artifact)))
    state, x = artifact.state_dict(), torch.randn(5, 1, 4, 4)
    y = x.flatten(1)
    for number in (1, 3, 5):
        y = torch.relu(y) if number > 1 else y
        y = y @ state[f"{number}.weight"].T + state[f"{number}.bias"]
    torch.testing.assert_close(model(x), y, atol=1e-5, rtol=1e-5)
    assert not model.training


def test_narrower_layers_than_the_catalogue_has() -> None:
    """Filters were removed: 3 channels of 20, 4 of 50, 7 units of 500."""
    rng = np.random.default_rng(0)
    shapes = {"0": (3, 1, 5, 5), "2": (4, 3, 5, 5), "5": (7, 64), "7": (10, 7)}
    tensors = {}
    for layer, shape in shapes.items():
        tensors[f"{layer}.weight"] = shared(shape, 16, 0.5)
        tensors[f"{layer}.bias"] = rng.normal(size=shape[0]).astype(np.float32)
    model = build(Artifact(tensors, Architecture("lenet-5", (1, 28, 28), 10)))
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_code_of_others_runs_only_if_trusted() -> None:
    artifact = Artifact({}, Architecture("os:abort", (1,), 2))
    with pytest.raises(ArtifactError, match="asks to run os:abort, which is code of somebody; pass trust=True"):
        build(read(write(artifact)))
    with pytest.raises(ArtifactError, match="cannot be made"):
        build(Artifact({}, Architecture("nowhere:nothing", (1,), 2)), trust=True)


def test_tensors_that_do_not_fit_the_network() -> None:
    artifact = small()
    fewer = Artifact({"1.weight": artifact.tensors["1.weight"]}, artifact.architecture)
    with pytest.raises(ArtifactError, match="do not fit mlp"):
        build(fewer)
    with pytest.raises(ArtifactError, match="names no network"):
        build(all_kinds())
    with pytest.raises(CompressError, match="w is float64; a file holds float32 and int64"):
        Artifact({"w": np.zeros(3)})  # type: ignore[dict-item]


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "m.twz"
    assert save(small(), path) == path.stat().st_size
    with pytest.raises(ArtifactError, match="read back"):
        save(Artifact({}, None, {"tuple": (1, 2)}), path)
    assert read(path).same(small()) and list(tmp_path.iterdir()) == [path]
    with pytest.raises(ArtifactError, match="cannot be read"):
        read(tmp_path / "none.twz")


def test_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.torch import load_file  # noqa: PLC0415

    artifact = small()
    to_safetensors(artifact, tmp_path / "m.safetensors")
    back = load_file(tmp_path / "m.safetensors")
    assert back.keys() == artifact.state_dict().keys()
    assert all(torch.equal(back[name], tensor) for name, tensor in artifact.state_dict().items())
    monkeypatch.setattr("tightwire.compress.artifact.export.find_spec", lambda _: None)
    with pytest.raises(ArtifactError, match="pip install onnx"):
        to_onnx(artifact, tmp_path / "m.onnx")


def test_export_onnx(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    to_onnx(small(), tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx").graph
    assert [node.op_type for node in graph.node] == ["Flatten", "Gemm", "Relu", "Gemm", "Relu", "Gemm"]
    runtime = pytest.importorskip("onnxruntime")
    x = torch.randn(5, *small().architecture.inputs)  # type: ignore[union-attr]
    (answer,) = runtime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x.numpy()})
    assert torch.allclose(torch.from_numpy(answer), build(small())(x).detach(), atol=1e-5)
