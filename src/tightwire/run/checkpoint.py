"""A checkpoint: one folder, complete or absent.

    runs/x/step-00000100.partial/   while it is written
    runs/x/step-00000100/           once every rank's files are on disk
        world.json                  step, workers, recipe, tensors, digests of all files
        rank-00000.safetensors      that worker's tensors
        rank-00000.json             everything else it needs to go on

The rename is the commit. A rank that cannot write says so to the others, the partial folder is removed, and the last
complete checkpoint stays as it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from tightwire.algebra.errors import CheckpointError
from tightwire.run.assembly import Assembly
from tightwire.run.transport import Entry
from tightwire.run.tree import put_together, take_apart

FORMAT = 1
_ENTRY = Entry("setup", "checkpoint")
_NAME = re.compile(r"step-(\d{8,})")
_SHARDS = re.compile(r"shards=\d+")  # a server's: its shards can be cut anew (`server.reshard`)


@dataclass(frozen=True)
class Description:
    """What a checkpoint is of: compared before anything is loaded."""

    step: int
    workers: int
    recipe: str
    tensors: dict[str, list[Any]]


def save(folder: Path, state: Any, description: Description, rank: int, assembly: Assembly) -> Path:
    """Write this rank's state; all ranks call this together. Returns the finished checkpoint."""
    final = folder / f"step-{description.step:08d}"
    partial = final.with_name(final.name + ".partial")
    said = _write_rank(partial, state, rank)
    answers = [json.loads(answer) for answer in assembly.everyones(json.dumps(said).encode(), _ENTRY)]
    verdict: dict[str, Any] = {"error": next((a["error"] for a in answers if "error" in a), None)}
    if rank == 0 and verdict["error"] is None:
        verdict["error"] = _commit(partial, final, description, {k: v for a in answers for k, v in a.items()})
    if rank == 0 and verdict["error"] is not None:
        shutil.rmtree(partial, ignore_errors=True)
    verdict = json.loads(assembly.everyones(json.dumps(verdict).encode(), _ENTRY)[0])
    if verdict["error"] is not None:
        raise CheckpointError(f"no checkpoint was written to {final}: {verdict['error']}; the one before is untouched")
    return final


def _write_rank(partial: Path, state: Any, rank: int) -> dict[str, Any]:
    """Write two files; return their digests, or the error."""
    stem = f"rank-{rank:05d}"
    try:
        partial.mkdir(parents=True, exist_ok=True)
        data, tensors = take_apart(state)
        save_file(tensors, partial / f"{stem}.safetensors")
        (partial / f"{stem}.json").write_text(json.dumps(data), encoding="utf-8")
        return {name: _digest(partial / name) for name in (f"{stem}.safetensors", f"{stem}.json")}
    except (OSError, SafetensorError) as error:
        return {"error": f"rank {rank}: {error}"}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _commit(partial: Path, final: Path, description: Description, digests: dict[str, str]) -> str | None:
    """Check that all files are here, write the manifest, rename. Returns an error text or None."""
    missing = [name for name in digests if not (partial / name).exists()]
    if missing:
        return f"{missing[0]} is not in {partial}; all workers must see the same folder"
    try:
        manifest = {"format": FORMAT, **vars(description), "files": digests}
        (partial / "world.json").write_text(json.dumps(manifest, indent=1), encoding="utf-8")
        _digest(partial / "world.json")
        if final.exists():
            shutil.rmtree(final)
        partial.rename(final)
        descriptor = os.open(final.parent, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    except OSError as error:
        return str(error)
    return None


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint in a folder."""
    found = [path for path in folder.glob("step-*") if _NAME.fullmatch(path.name) and (path / "world.json").exists()]
    return max(found, key=lambda path: int(path.name.removeprefix("step-")), default=None)


def keep_newest(folder: Path, count: int) -> None:
    """Remove all but the newest checkpoints of a folder, and what was left half-written."""
    complete = sorted((p for p in folder.glob("step-*") if _NAME.fullmatch(p.name)), key=lambda p: int(p.name[5:]))
    for path in (*complete[:-count], *folder.glob("step-*.partial")):
        shutil.rmtree(path, ignore_errors=True)


def find(folder: Path, now: Description) -> tuple[Path, int]:
    """The checkpoint that a folder is, or the newest in it, and of how many workers; refuses one of another run."""
    path = folder if (folder / "world.json").exists() else latest(folder)
    if path is None:
        raise CheckpointError(f"there is no complete checkpoint in {folder}")
    before = read_description(path)
    if before.tensors != now.tensors:
        odd = sorted(set(map(str, before.tensors.items())) ^ set(map(str, now.tensors.items())))
        raise CheckpointError(f"{path} is of another model: {odd[0]} differs; build the model it was saved from")
    if _SHARDS.sub("", before.recipe) != _SHARDS.sub("", now.recipe):
        raise CheckpointError(f"{path} is of another recipe: it was {before.recipe}, this is {now.recipe}")
    return path, before.workers


def read_description(checkpoint: Path) -> Description:
    """What a checkpoint is of; refuses what is missing, damaged or too new."""
    manifest = _read_json(checkpoint / "world.json")
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"{checkpoint} has format {manifest.get('format')}, this version reads {FORMAT}; "
            "use the tightwire that wrote it"
        )
    return Description(*(manifest[name] for name in ("step", "workers", "recipe", "tensors")))


def read_rank(checkpoint: Path, rank: int) -> Any:
    """One rank's state, checked against its digest."""
    files = _read_json(checkpoint / "world.json")["files"]
    stem = f"rank-{rank:05d}"
    for name in (f"{stem}.safetensors", f"{stem}.json"):
        path = checkpoint / name
        if not path.exists():
            raise CheckpointError(f"{path} is missing; restore it or use an older checkpoint")
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != files.get(name):
                raise CheckpointError(f"{path} is damaged: its contents are not those that were saved")
    return put_together(_read_json(checkpoint / f"{stem}.json"), load_file(checkpoint / f"{stem}.safetensors"))


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path.parent} is not a checkpoint: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}") from None
