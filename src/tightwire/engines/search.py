"""From a trained network to a policy: what `tightwire search` does.

    source, data → samples kept apart → `SearchRun` (look once, search, keep) → policy.json, and a report beside it

Samples to decide by are a part of the training set; the test set is only reported.
"""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tightwire.compress.search.build import Wish
from tightwire.data.augment import AugmentName
from tightwire.engines.config import ConfigError
from tightwire.engines.page import write_page
from tightwire.engines.search_methods import METHODS, Watch
from tightwire.engines.search_page import page
from tightwire.engines.search_run import SearchRun
from tightwire.engines.shrink import parse_options
from tightwire.engines.shrink_source import find_source, make_sets


@dataclass(frozen=True)
class SearchConfig:
    """What to search, for what, and where the policy goes."""

    source: Path
    out: Path
    wish: Wish
    methods: tuple[str, ...] = ("amc",)
    episodes: int = 400
    samples: int = 2000
    seed: int = 0
    model: str | None = None
    options: tuple[str, ...] = ()
    data: str | None = None
    data_folder: str | None = None
    device: str = "cpu"
    augment: AugmentName = "none"
    rounds: tuple[float, ...] = ()
    round_epochs: float = 5.0
    table: Path | None = None
    work: Path | None = None
    overwrite: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be searched."""
        unknown = [name for name in self.methods if name not in METHODS]
        if unknown or not self.methods:
            raise ConfigError(f"method {', '.join(unknown) or 'none'} is not known; choose among {', '.join(METHODS)}")
        if self.episodes < 1 or self.samples < 1:
            raise ConfigError(f"episodes={self.episodes} and samples={self.samples} must be at least 1")
        if self.rounds and (self.wish.prune != "weights" or any(not 0 < share <= 1 for share in self.rounds)):
            raise ConfigError("rounds are densities of single weights, such as 0.5,0.35,0.25,0.2; use --prune weights")

    @property
    def folder(self) -> Path:
        """Where the search is kept."""
        return self.work or self.out.with_name(self.out.name + ".work")


def search_policy(config: SearchConfig, *, watch: Watch) -> dict[str, Any]:
    """Search, write policy and report, and return the figures."""
    if config.overwrite:
        shutil.rmtree(config.folder, ignore_errors=True)
    source = find_source(config.source, model=config.model, options=parse_options(config.options), data=config.data,
                         data_folder=config.data_folder)  # fmt: skip
    if source.data is None:
        raise ConfigError(f"{config.source} comes without data, and a search must measure; give --data")
    sets = make_sets(source.data, device=config.device, decide=True, augment=config.augment)
    begin = time.perf_counter()
    source.model.to(config.device)
    run = SearchRun(source, sets, config.wish, methods=config.methods, episodes=config.episodes, seed=config.seed,
                    samples=config.samples, folder=config.folder, table=config.table, watch=watch)  # fmt: skip
    found = run.in_rounds(config.rounds, epochs=config.round_epochs) if config.rounds else run.once(source.model)
    found.policy.save(config.out)
    result: dict[str, Any] = {
        **asdict(found.policy), "file": str(config.out), "report": str(config.out.with_suffix(".html")),
        "seconds": time.perf_counter() - begin, "data": source.data.name, "frontier": found.frontier,
        "test_accuracy": {"before": found.before, "pruned": found.pruned},
    }  # fmt: skip
    write_page(page(result), config.out.with_suffix(".html"))
    return result
