"""Every recipe with a server, in one process and on 4 hosts of the lab: accuracy, and the kernel's bytes over ours.

    python -m benchmarks.lab_servers [--recipes easgd,ssp] [--epochs 10] [--seeds 3]

On the hosts the servers are the workers' own, over TLS with throw-away keys. Digits, `mlp`, the recipes' own settings.
Rows of recipes that were measured before are kept. Needs root.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.harness import RESULTS, write
from tightwire.engines.config import RunConfig
from tightwire.engines.recipe import needs_server
from tightwire.engines.start import run
from tightwire.recipes.catalogue import CATALOGUE

RATE = "1gbit"


def row(recipe: str, epochs: float, seeds: int) -> dict[str, Any]:
    """One recipe, both ways."""
    inside, hosts = [], []
    for seed in range(seeds):
        with tempfile.TemporaryDirectory() as folder:
            common = {"recipe": recipe, "epochs": epochs, "seed": seed, "workers": 4}
            inside.append(run(RunConfig(**common, folder=f"{folder}/inside", engine="inside")))  # type: ignore[arg-type]
            hosts.append(run(RunConfig(**common, folder=f"{folder}/lab", lab=RATE)))  # type: ignore[arg-type]
    wires = [result["wire"] for result in hosts]
    return {
        "recipe": recipe,
        "epochs": epochs,
        "seeds": seeds,
        "accuracy_in_one_process": statistics.mean(result["test_accuracy"] for result in inside),
        "accuracy_on_hosts": statistics.mean(result["test_accuracy"] for result in hosts),
        "accuracies_on_hosts": [result["test_accuracy"] for result in hosts],
        "accuracies_in_one_process": [result["test_accuracy"] for result in inside],
        "measured_over_ledger_tx": statistics.mean(w["measured_tx_bytes"] / w["tx_bytes"] for w in wires),
        "measured_over_ledger_rx": statistics.mean(w["measured_rx_bytes"] / w["rx_bytes"] for w in wires),
        "mean_staleness": statistics.mean(result["staleness"]["mean"] for result in hosts),
    }


def main() -> None:
    """The command line."""
    served = [name for name, entry in CATALOGUE.items() if needs_server(entry.make())]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", default=",".join(served))
    parser.add_argument("--epochs", type=float, default=10.0)
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    path = RESULTS / "lab_servers.json"
    rows = {one["recipe"]: one for one in (json.loads(Path(path).read_text())["rows"] if path.exists() else [])}
    for recipe in arguments.recipes.split(","):
        rows[recipe] = row(recipe, arguments.epochs, arguments.seeds)
        print(json.dumps(rows[recipe]), flush=True)
        write("lab_servers", {"workers": 4, "link": RATE, "rows": list(rows.values())})


if __name__ == "__main__":
    main()
