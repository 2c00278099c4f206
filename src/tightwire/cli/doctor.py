"""`tightwire doctor`: what works on this machine, and what is missing for the rest."""

from __future__ import annotations

import importlib.util
import os
import platform
from typing import Any

import typer

from tightwire.cli.options import Json

_EXTRAS = {
    "sklearn": "the embedded digits data",
    "plotly": "reports",
    "tensorboard": "TensorBoard scalars",
    "triton": "GPU kernels",
    "numba": "CPU kernels",
    "pyarrow": "the parameter server over the network",
    "cryptography": "its keys: TLS between machines, tightwire keys",
    "ray": "runs on Ray",
    "pyspark": "runs on Spark",
    "lightning": "runs under Lightning",
}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(doctor)


def doctor(json_to: Json = None) -> None:
    """Say what works on this machine: torch, GPUs, the network lab, optional packages."""
    from tightwire.cli.show import console, write_json

    findings = examine()
    words = console(json_to)
    for finding in findings:
        mark = "[green]✓[/]" if finding["works"] else "[yellow]–[/]"
        words.print(f"{mark} [bold]{finding['what']}[/]: {finding['text']}")
    write_json({"findings": findings}, json_to)


def examine() -> list[dict[str, Any]]:
    """Every finding: what, whether it works, and a sentence."""
    import torch
    import torch.distributed as dist

    from tightwire.lab import why_no_latency, why_not

    no_lab, no_latency = why_not(), why_no_latency()
    gpus = torch.cuda.device_count()
    found = [
        _finding("Python", True, platform.python_version()),
        _finding("torch", True, torch.__version__),
        _finding("processor", True, f"{os.cpu_count()} cores"),
        _finding("gloo", dist.is_gloo_available(), "workers on CPUs, and beside GPUs"),
        _finding("GPU", gpus > 0, f"{gpus} × {torch.cuda.get_device_name()}" if gpus else "none: workers use the CPU"),
        _finding(
            "NCCL", gpus > 0 and dist.is_nccl_available(), "workers on several GPUs (unverified)" if gpus else "no GPU"
        ),
        _finding("lab", no_lab is None, no_lab or "hosts with real link rates: --lab 1gbit"),
        _finding("lab latency", no_latency is None, no_latency or "--lab 1gbit,5ms"),
    ]
    for module, purpose in _EXTRAS.items():
        there = importlib.util.find_spec(module) is not None
        found.append(_finding(module, there, purpose if there else f"not installed; needed for {purpose}"))
    return found


def _finding(what: str, works: bool, text: str) -> dict[str, Any]:
    return {"what": what, "works": works, "text": text}
