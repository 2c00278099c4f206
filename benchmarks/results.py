"""Make docs/results.md from the JSON under benchmarks/results.

python -m benchmarks.results          write the page
python -m benchmarks.results --check  fail if the page is not what the JSON gives
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from benchmarks import sections_async as asyncs
from benchmarks import sections_compress as small
from benchmarks import sections_plan as plan
from benchmarks import sections_search as search
from benchmarks import sections_shrink as files
from benchmarks import sections_split as split
from benchmarks import sections_training as training
from benchmarks.harness import RESULTS

PAGE = Path(__file__).parents[1] / "docs" / "results.md"


def page() -> str:
    """The whole page."""
    parts = [
        "# Results\n\nMade from `benchmarks/results/*.json` by `python -m benchmarks.results`. Every figure was "
        "measured; its command stands below it.\n"
    ]
    for name, section in SECTIONS.items():
        path = RESULTS / f"{name}.json"
        if path.exists():
            record = json.loads(path.read_text(encoding="utf-8"))
            parts.append(section(record) + _where(record))
    return "\n".join(parts)


def _where(record: dict[str, Any]) -> str:
    """What must be known of the circumstances, and the command."""
    machine = record["machine"]
    gpu = f", {machine['gpu']}" if machine["gpu"] else ""
    note = f"\n{record['note']}\n" if "note" in record else ""
    return note + (
        f"\n`{record['command']}`, {record['date']}: {machine['cpu']}, {machine['cores']} cores{gpu}, "
        f"torch {record['versions']['torch']}, Python {record['versions']['python']}.\n"
    )


SECTIONS = {
    "vs_ddp": training.vs_ddp,
    "vs_ddp_lab_1gbit": training.vs_ddp,
    "step_time_1gbit": training.step_time,
    "step_time_100mbit": training.step_time,
    "payload_ratio": training.payload_ratio,
    "gpu_kernels": training.gpu_kernels,
    "wire_bytes": training.wire_bytes,
    "lab_bytes": training.lab_bytes,
    "digits": training.digits,
    "accuracy_fashion-mnist_cnn_8": training.accuracy,
    "accuracy_fashion-mnist_cnn_30": training.accuracy,
    "accuracy_cifar10_resnet20_40": training.accuracy,
    "accuracy_cifar10_resnet20_50": training.accuracy,
    "accuracy_photographs-whole_resnet20_15": training.accuracy,
    "accuracy_photographs-whole_resnet20_5": training.accuracy,
    "hogwild": asyncs.hogwild,
    "stragglers": asyncs.stragglers,
    "server": asyncs.server,
    "server_lab": asyncs.server_lab,
    "attack": asyncs.attack,
    "lab_servers": asyncs.lab_servers,
    "ptb": training.ptb,
    "asynchrony": asyncs.asynchrony,
    "table1": split.table1,
    "table1_4": split.table1,
    "table1_beside": split.table1,
    "table1_2cores": split.table1,
    "frames": split.frames,
    "pipelines_2": split.pipelines,
    "pipelines_4": split.pipelines,
    "predict": plan.predict,
    "plan_first": plan.plan_first,
    "simulate": plan.simulate,
    "shrink": files.shrink,
    "file_size": small.file_size,
    "run_compressed": small.run_compressed,
    "gpu_codebook": small.gpu_codebook,
    "amc": search.amc,
    "amc_cnn": search.amc,
    "amc_vgg16": search.amc,
    "amc_vgg16-quarter": search.amc,
    "amc_resnet20_16": search.amc,
    "amc_resnet20_16_bottleneck": search.amc,
    "amc_cpu": search.amc_cpu,
}


def main() -> None:
    """Write the page, or check it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    made = page()
    if parser.parse_args().check:
        sys.exit(
            0 if PAGE.read_text(encoding="utf-8") == made else "docs/results.md is stale: python -m benchmarks.results"
        )
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
