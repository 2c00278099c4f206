"""The results page: slow workers, staleness, one memory, the server's wire."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.tables import table


def hogwild(record: dict[str, Any]) -> str:
    """Steps lost to collisions, and what a second worker brings."""
    numbers = list(dict.fromkeys(row["numbers"] for row in record["lost"]))
    workers = list(dict.fromkeys(row["workers"] for row in record["lost"]))
    lost = {(row["numbers"], row["workers"]): row["lost"] for row in record["lost"]}
    rows: list[list[object]] = [[f"{n:,}", *(f"{100 * lost[n, w]:.2g}%" for w in workers)] for n in numbers]
    one, two = (max(record["sparse"][w]) for w in ("1", "2"))
    return "".join(
        [
            "## `hogwild`: lost steps, sparse throughput\n\n",
            "Every worker adds 1 to numbers in one memory; lost steps:\n\n",
            table(["numbers", *(f"{w} processes" for w in workers)], rows),
            "\nLogistic regression, 32 of a million weights a sample, samples a second (best of the rounds): ",
            f"{one:,.0f} with one process, {two:,.0f} with two, **{two / one:.2f}** times.\n",
        ]
    )


def stragglers(record: dict[str, Any]) -> str:
    """Slow workers, for ever and now and then."""
    parts = [
        f"## Slow workers\n\nSeconds to {record['samples']:,} samples of digits, `mlp`, {record['workers']} real "
        "workers that really sleep: 20 ms in a usual step. BSP is `ssp` with staleness 0. A bound of s lets the fast "
        "run s steps ahead once; against a worker that is slow for ever that is all it gives:\n"
    ]
    words = {
        "permanent": "One worker held up 5 times as long, always",
        "transient": "Every step held up by a lognormal factor, σ = 1",
    }
    for kind, rows in record["rows"].items():
        shown: list[list[object]] = []
        for row in rows:
            sync, bsp = row["times_faster_than"].values()
            age = "" if row["staleness_mean"] is None else f"{row['staleness_mean']:.1f}"
            shown.append([f"`{row['recipe']}`", f"{row['median_seconds']:.2f} s", f"{sync:.2f}×", f"{bsp:.2f}×", age])
        head = ["", "median", "faster than `sync-sgd`", "than BSP", "mean staleness"]
        parts.append(f"\n{words[kind]}:\n\n{table(head, shown)}")
    return "".join(parts)


def asynchrony(record: dict[str, Any]) -> str:
    """What periods, staleness and rates cost."""
    where = f"`{record['model']}` on {record['data']}, {record['workers']} workers, batch {record['batch']} each"
    parts = [f"## Asynchrony: {record['data']}\n\n{where}, in one process, times lognormal.\n\n"]
    if record["compare"]:
        parts += [f"{record['epochs']:g} epochs, paired by seed; bytes are what one worker sends and receives. "
                  "Rates of `easgd` and `agn` were chosen among four each by test accuracy at seed 0 over 6 epochs; "
                  "over 6 epochs and seeds 0 to 2 they had lost 0.50 and 0.72 points:\n\n",
                  _compared(record["compare"]), "\n"]  # fmt: skip
    if record["downpour"]:
        parts += [f"`downpour` over its period, {record['downpour_epochs']:g} epochs, means over seeds ",
                  "([drawn](images/downpour_tau.svg)):\n\n", _periods(record["downpour"]), "\n"]  # fmt: skip
    if record["softsync"]:
        parts += ["Rates of a fresh gradient, constant (`softsync`) and divided by age (`staleness-aware`), ",
                  f"momentum {record['momentum']:g}, {record['softsync_epochs']:g} epochs ",
                  "([drawn](images/softsync_rate.svg)):\n\n", _rates(record["softsync"])]  # fmt: skip
    return "".join(parts)


def _compared(rows: list[dict[str, Any]]) -> str:
    lines: list[list[object]] = [
        [f"`{row['recipe']}`", _spread(row["accuracy"].values()), f"{row['points_above_sync_sgd']:+.2f}",
         f"{row['bytes_a_step']:,.0f}", f"{row['fewer_bytes']:.1f}×"]
        for row in rows
    ]  # fmt: skip
    return table(["recipe", "test accuracy", "points above sync-sgd", "bytes a step", "fewer"], lines)


def _periods(rows: list[dict[str, Any]]) -> str:
    lines: list[list[object]] = [
        [row["tau"] or "sync-sgd", f"{row['gamma']:g}" if row["tau"] else "", _spread(row["each"]),
         f"{row.get('staleness') or 0:.1f}"]
        for row in rows
    ]  # fmt: skip
    return table(["push = fetch", "gamma", "test accuracy", "mean age"], lines)


def _rates(rows: list[dict[str, Any]]) -> str:
    rates = sorted({row["rate"] for row in rows})
    found = {(row["n"], row["rule"], row["rate"]): row for row in rows}
    lines: list[list[object]] = [
        [n, rule, *(_percent(found[n, rule, rate]) if (n, rule, rate) in found else "" for rate in rates)]
        for n, rule in dict.fromkeys((row["n"], row["rule"]) for row in rows)
    ]
    return table(["n", "rate", *(f"{rate:g}" for rate in rates)], lines)


def _percent(row: dict[str, Any]) -> str:
    return "broke off" if row["accuracy"] is None else f"{100 * row['accuracy']:.1f}%"


def _spread(values: Iterable[float]) -> str:
    found = [100 * value for value in values]
    return f"{sum(found) / len(found):.2f}% ({min(found):.2f} – {max(found):.2f})"


def server(record: dict[str, Any]) -> str:
    """The server's wire next to sockets and peers, and between hosts."""
    applying = record["applying_milliseconds"]
    parts = [
        f"## The parameter server's wire\n\n{record['nbytes'] // 10**6} MB pushed and pulled, worker and server in two "
        "processes of one machine, a thread each: received whole, then applied, by all of them (the applying alone: "
        f"{applying['push']:.0f} and {applying['pull']:.0f} ms). Medians of {record['rounds']} interleaved rounds, "
        f"a table for each group that took turns{_busy(record)}:\n",
        *(f"\n{_milliseconds(group['where'], group['milliseconds'])}" for group in record["groups"]),
        "\nOurs ÷ theirs in speed, median of the rounds' own ratios (quartiles):\n\n",
        _speeds(record["compared"]),
    ]
    if not str(record["ray"])[0].isdigit():
        parts.append(f"\nRay was {record['ray']}.\n")
    return "".join(parts)


def _busy(record: dict[str, Any]) -> str:
    load = record["load_average_before"]
    return f" (the machine was busy with other work: load average {load:.0f})" if load > 1.0 else ""


def _milliseconds(where: str, group: dict[str, dict[str, float]]) -> str:
    names = list(group["push"])
    return table([f"ms, {where}", *names], [[way, *(f"{group[way][name]:.1f}" for name in names)] for way in group])


def _speeds(rows: list[dict[str, Any]]) -> str:
    pairs = dict.fromkeys((row["pair"], row["where"], row["bar"]) for row in rows)
    found = {(row["pair"], row["where"], row["way"]): row["speed"] for row in rows}
    lines: list[list[object]] = [
        [pair, where, *(_with_quartiles(found[pair, where, way]) for way in ("push", "pull")), f"{bar:g}"]
        for pair, where, bar in pairs
    ]
    return table(["", "processes", "push", "pull", "bar"], lines)


def _with_quartiles(speed: dict[str, Any]) -> str:
    low, _, high = speed["quartiles"]
    return f"**{speed['median']:.2f}** ({low:.2f} – {high:.2f})"


def server_lab(record: dict[str, Any]) -> str:
    """The server between hosts."""
    shares = {way: statistics.median(found) for way, found in record["line"]["share_of_line"].items()}
    many = record["servers"]
    one, two = (statistics.median(many[name]) / 1e6 for name in ("one", "two"))
    turns = statistics.median(many["two in turn"]) / 1e6 if "two in turn" in many else None
    in_turn = "" if turns is None else f" Asked one after another by all workers in the same order: {turns:.1f} MB/s."
    return (
        "## The parameter server between hosts\n\n"
        f"Hosts of the lab, TLS and a token{_busy(record)}. At 1 Gbit/s a push of "
        f"{record['line']['nbytes'] // 10**6} MB fills **{100 * shares['push']:.0f}%** of the line, a pull "
        f"**{100 * shares['pull']:.0f}%** (payload ÷ line rate). {many['workers']} workers that push "
        f"{many['nbytes'] // 10**6} MB each, hosts at {many['rate']}: "
        f"{one:.1f} MB/s with one server, {two:.1f} with two, **{many['times']:.2f}** times.{in_turn}\n"
    )


_BUSY = {"computing": "that compute", "saturating": "that only push"}


def attack(record: dict[str, Any]) -> str:
    """What attackers cost honest workers."""
    kept = {name: record[name] for name in ("computing", "saturating")}
    rows: list[list[object]] = [
        [_BUSY[name], f"{row['pushes_per_second']:.0f}", f"{row['pushes_per_second_under_attack']:.0f}",
         f"**{row['rate_kept']:.2f}**", f"{row['attacks_per_second']:.0f}"]
        for name, row in kept.items()
    ]  # fmt: skip
    return (
        f"## A server under attack\n\n{record['workers']} workers that push {record['push_nbytes'] / 1e6:g} MB (those "
        "that compute every 20 ms), while somebody tries wrong tokens, plain text, noise, an expired certificate, "
        "broken streams and malformed messages:\n\n"
        + table(["workers", "pushes a second", "under attack", "kept", "attempts a second"], rows)
    )


def lab_servers(record: dict[str, Any]) -> str:
    """The asynchronous recipes over Flight between hosts, next to one process."""
    rows: list[list[object]] = [
        [f"`{row['recipe']}`", f"{100 * row['accuracy_in_one_process']:.1f}%", f"{100 * row['accuracy_on_hosts']:.1f}%",
         f"{row['measured_over_ledger_tx']:.3f}"]
        for row in record["rows"]
    ]  # fmt: skip
    return (
        f"## Servers between hosts: accuracy and bytes\n\ndigits, {record['workers']} hosts of the lab at "
        f"{record['link']}, TLS; the kernel's counters ÷ the ledger; means over seeds:\n\n"
        + table(["recipe", "in one process", "on hosts", "measured ÷ ledger"], rows)
    )
