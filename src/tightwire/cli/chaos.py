"""`tightwire chaos`: replicated servers under faults, simulated by the thousand and real by the dozen."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tightwire.cli.options import Json

_TELL_EVERY = 5000


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(chaos)


def chaos(
    *,
    simulated: Annotated[int, typer.Option(help="How many simulated worlds.")] = 2000,
    real: Annotated[int, typer.Option(help="How many real runs: servers killed, stopped, cut off.")] = 0,
    first: Annotated[int, typer.Option(help="The first seed of both.")] = 0,
    bug: Annotated[
        str | None, typer.Option(metavar="NAME", help="A mistake made on purpose, for the simulator to find.")
    ] = None,
    trace: Annotated[bool, typer.Option("--trace", help="Print every message of the simulated worlds.")] = False,
    out: Annotated[str, typer.Option(metavar="FOLDER", help="Where real runs write.")] = "runs/chaos",
    json_to: Json = None,
) -> None:
    """Break servers and look whether anything is lost.

    Every seed draws its own faults: delays, losses, doubles, partitions, stops and crashes in a simulated world;
    SIGKILL, SIGSTOP and pulled cables in a real one (cables need root). A seed that fails is printed with the command
    that runs it again: a simulated world then fails in the same way, a real one is struck in the same way.
    """
    from tightwire.cli.show import console, write_json

    words = console(json_to)
    told: dict[str, Any] = {}
    if simulated:
        told["simulated"] = _simulate(words, range(first, first + simulated), bug, trace)
    if real:
        told["real"] = _really(words, range(first, first + real), out)
    write_json(told, json_to)
    if any(part["failed"] for part in told.values()):
        raise typer.Exit(1)


def _simulate(words: Any, seeds: range, bug: str | None, trace: bool) -> dict[str, Any]:
    import time

    from tightwire.algebra.errors import UsageError
    from tightwire.server.bugs import BUGS
    from tightwire.server.simulated import World

    if bug is not None and bug not in BUGS:
        raise UsageError(f"--bug {bug} is not known; known are {', '.join(BUGS)}")
    began_s = time.perf_counter()
    say = (lambda line: words.print(line, markup=False, highlight=False, soft_wrap=True)) if trace else None
    for done, seed in enumerate(seeds):
        wrong = World(seed, BUGS[bug] if bug else None, say).run()
        if wrong is not None:
            again = f"tightwire chaos --first {seed} --simulated 1 --trace" + (f" --bug {bug}" if bug else "")
            words.print(f"[bold red]seed {seed}: {wrong}[/]\nagain: {again}", highlight=False, soft_wrap=True)
            return {"worlds": done + 1, "failed": [seed], "why": wrong, "seconds": time.perf_counter() - began_s}
        if (done + 1) % _TELL_EVERY == 0 and done + 1 < len(seeds):
            words.print(f"{done + 1:,} of {len(seeds):,} simulated worlds, {time.perf_counter() - began_s:.0f} s")
    took_s = time.perf_counter() - began_s
    words.print(f"{len(seeds):,} simulated worlds in {took_s:.1f} s: nothing lost, nothing twice, nobody hangs")
    return {"worlds": len(seeds), "failed": [], "seconds": took_s}


def _really(words: Any, seeds: range, out: str) -> dict[str, Any]:
    import shutil
    from dataclasses import asdict
    from pathlib import Path

    from tightwire.engines.chaos import draw, run
    from tightwire.lab import why_not

    lab = why_not() is None
    folder = Path(out)
    shutil.rmtree(folder / "calm", ignore_errors=True)
    calm = run(folder / "calm", 0, strikes=[])
    words.print(f"undisturbed: {calm.accuracy:.1%} after {calm.pushes:,} pushes in {calm.seconds:.0f} s")
    verdicts, failed = [], []
    for seed in seeds:
        rate = "1gbit" if lab and seed % 2 else None  # every other one on hosts, where cables can be pulled
        shutil.rmtree(folder / f"seed-{seed}", ignore_errors=True)
        strikes = draw(seed, lab=rate is not None)
        shards, servers = 1 + seed // 2 % 2, 2 + (seed % 3 > 0)
        verdict = run(folder / f"seed-{seed}", seed, strikes=strikes, rate=rate, shards=shards, servers=servers)
        good = verdict.good and abs(verdict.accuracy - calm.accuracy) <= 0.01
        words.print(
            f"real {seed - seeds.start + 1} of {len(seeds)}, seed {seed}, {servers} servers: "
            f"{'; '.join(verdict.strikes)}: {verdict.accuracy:.1%}, {verdict.lost} lost, {verdict.twice} twice, "
            f"{len(verdict.hangs)} hang{'' if good else '  [bold red]✗[/]'}",
            highlight=False, soft_wrap=True,
        )  # fmt: skip
        verdicts.append(asdict(verdict))
        if not good:
            failed.append(seed)
            words.print(f"again: tightwire chaos --simulated 0 --real 1 --first {seed}", highlight=False)
            for hang in verdict.hangs:
                words.print(f"  {hang}", markup=False, highlight=False, soft_wrap=True)
    if not failed:
        words.print(f"{len(seeds)} real runs: nothing lost, nothing twice, nobody hangs, accuracy within a point")
    return {"calm": asdict(calm), "runs": verdicts, "failed": failed}
