"""`tightwire lab`: any command, once on each of several hosts with real link rates."""

from __future__ import annotations

from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})(lab)


def lab(
    command: Annotated[list[str], typer.Argument(metavar="-- CMD…", help="The command, after two dashes.")],
    hosts: Annotated[int, typer.Option(help="How many hosts.")] = 4,
    rate: Annotated[
        str, typer.Option(metavar="RATE[,LATENCY]", help="Each host's link: 1gbit, 100mbit,5ms.")
    ] = "1gbit",
) -> None:
    """Run a command on every host of a lab: network namespaces joined by shaped links, on this machine (needs root).

    Each process finds torchrun's environment for one process a host, so a script that runs under torchrun runs here:

        tightwire lab --hosts 4 --rate 1gbit -- python train.py

    Afterwards the kernel's counters say what each host sent and received.
    """
    from rich.table import Table

    from tightwire.cli.show import console, human_bytes
    from tightwire.lab import Lab, run_everywhere

    words = console("-")  # the command's own output has standard output for itself
    with Lab(hosts, rate) as built:
        before = [built.counters(rank) for rank in range(hosts)]
        status = run_everywhere(built, command)
        moved = [built.counters(rank) - before[rank] for rank in range(hosts)]
    table = Table(header_style="bold", box=None, pad_edge=False)
    for column in ("host", "sent", "received"):
        table.add_column(column, justify="right")
    for rank, counters in enumerate(moved):
        table.add_row(f"h{rank}", human_bytes(counters.tx_bytes), human_bytes(counters.rx_bytes))
    words.print(table)
    raise typer.Exit(status)
