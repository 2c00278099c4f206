"""Runs with a parameter server, in one process and in real ones: stopped anywhere, resumed, nothing lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tightwire.engines.config import RunConfig
from tightwire.engines.inside import run_inside
from tightwire.engines.keyring import make_keys
from tightwire.engines.local import run_processes
from tightwire.engines.outcome import read_outcomes, stop_file
from tightwire.engines.start import RunStopped, judge, prepare, run
from tightwire.lab import why_not
from tightwire.links.door import own_door
from tightwire.links.service import Service
from tightwire.server.wireform import WireForm

STEPS, WORKERS = 30, 4
PUSHES = {"asgd": 120, "hardsync": 120, "ssp": 120, "backup-workers": 120, "omnivore": 60, "agn": 24, "easgd": 12}


@pytest.mark.parametrize("recipe", PUSHES)
def test_a_run_that_was_stopped_goes_on_and_every_push_is_counted_once(tmp_path: Path, recipe: str) -> None:
    config = prepare(
        RunConfig(
            recipe=recipe, steps=STEPS, workers=WORKERS, folder=str(tmp_path), save_every=15, engine="inside"
        )
    )  # fmt: skip
    stop_file(tmp_path).touch()
    run_inside(config, resume=False)
    with pytest.raises(RunStopped, match="stopped at step 10"):
        judge(config, read_outcomes(tmp_path))
    result = run(config, resume=True)
    assert result["steps"] == STEPS
    assert sum(result["staleness"]["histogram"].values()) + result["staleness"]["dropped"] == PUSHES[recipe]


def steps_of(folder: Path) -> list[int]:
    """How often each worker stepped, by its events."""
    files = sorted((folder / "events").glob("rank-*.jsonl"))
    return [
        sum(json.loads(line)["event"] == "Stepped" for line in file.read_text(encoding="utf-8").splitlines())
        for file in files
    ]


@pytest.mark.processes
def test_real_workers_run_apart_are_stopped_go_on_and_end_together(tmp_path: Path) -> None:
    config = prepare(
        RunConfig(
            recipe="asgd", samples=3200, batch=8, workers=WORKERS, folder=str(tmp_path), save_every=30,
            delays="lognormal:0:3ms", straggler="2:10x", restarts=0,
        )
    )  # fmt: skip
    stop_file(tmp_path).touch()
    run_processes(config, resume=False)
    with pytest.raises(RunStopped):
        judge(config, read_outcomes(tmp_path))
    result = run(config, resume=True)
    steps = steps_of(tmp_path)
    assert steps[2] < 0.5 * min(steps[0], steps[1], steps[3]), f"a slow worker takes fewer steps: {steps}"
    assert 3200 <= result["samples"] < 3200 + 8 * WORKERS * 2
    assert abs(8 * sum(steps) - result["samples"]) <= 8 * sum(steps) * 0.05, "what was done before it stopped counts"
    assert sum(result["staleness"]["histogram"].values()) == sum(steps), "every push once, also across the stop"
    assert result["staleness"]["max"] >= 3
    assert result["wire"]["link"] == "loopback"


def same_weights(one: Path, other: Path) -> bool:
    ours, theirs = (load_file(folder / "model.safetensors") for folder in (one, other))
    return all(torch.equal(ours[name], theirs[name]) for name in ours)


@pytest.mark.processes
def test_servers_that_stand_alone_give_the_same_bits_and_tell_what_they_refused(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    make_keys(keys, run="mine", hosts=["localhost"], days=1.0)
    door = own_door(
        "grpc+tls://127.0.0.1:0", token_file=str(keys / "tokens"), certificate_file=str(keys / "server.pem"),
        key_file=str(keys / "server-key.pem"), client_authority_file=str(keys / "ca.pem"),
    )  # fmt: skip
    services = [Service(WireForm(), door) for _ in range(2)]
    where = ",".join(service.listen().location.replace("127.0.0.1", "localhost") for service in services)
    common = {"recipe": "hardsync", "steps": STEPS, "workers": 2, "save_every": 20}
    run(RunConfig(**common, folder=str(tmp_path / "inside"), engine="inside"))  # type: ignore[arg-type]
    services[0].guard.count("token", 3)  # as if strangers had come
    try:
        result = run(
            RunConfig(
                **common, folder=str(tmp_path / "served"), server=where, token_file=str(keys / "mine.token"),
                ca=str(keys / "ca.pem"), cert=str(keys / "worker.pem"), key=str(keys / "worker-key.pem"), restarts=0,
            )  # type: ignore[arg-type]
        )  # fmt: skip
    finally:
        for service in services:
            service.close()
    assert same_weights(tmp_path / "inside", tmp_path / "served")
    assert result["faults"] == {"restarts": 0, "refused": {"token": 3}}
    assert not any(service.desks for service in services), "the last worker takes its shards along"


@pytest.mark.lab
@pytest.mark.skipif(why_not() is not None, reason=str(why_not()))
def test_on_hosts_of_their_own_the_bits_are_the_same_and_the_kernel_agrees(tmp_path: Path) -> None:
    """Over TLS, between network namespaces; in one process without a socket."""
    common = {"recipe": "hardsync", "steps": STEPS, "workers": WORKERS, "save_every": 20}
    run(RunConfig(**common, folder=str(tmp_path / "inside"), engine="inside"))  # type: ignore[arg-type]
    result = run(RunConfig(**common, folder=str(tmp_path / "lab"), lab="1gbit"))  # type: ignore[arg-type]
    assert same_weights(tmp_path / "inside", tmp_path / "lab")
    wire = result["wire"]
    for way in ("tx", "rx"):
        assert 0.97 < wire[f"measured_{way}_bytes"] / wire[f"{way}_bytes"] < 1.08
    assert sum(result["staleness"]["histogram"].values()) == STEPS * WORKERS
