"""`tightwire keys`: an authority, certificates and tokens, for parameter servers between machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tightwire.cli.options import Json


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(keys)


def keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where they go.")] = Path("keys"),
    hosts: Annotated[
        str, typer.Option(help="Names and addresses under which servers are found, separated by commas.")
    ] = "localhost,127.0.0.1",
    run: Annotated[str, typer.Option(help="The run that the tokens open.")] = "run",
    days: Annotated[float, typer.Option(help="How long certificates are valid.")] = 365.0,
    json_to: Json = None,
) -> None:
    """Make keys for parameter servers: an authority, certificates and tokens.

    What is in the folder already is kept; another `--run` adds its tokens. The authority's key (ca-key.pem) is needed
    only here. Copy server.pem, server-key.pem and tokens to the servers, ca.pem and RUN.token to the workers.
    """
    from tightwire.cli.show import console, write_json
    from tightwire.engines.keyring import make_keys

    words = console(json_to)
    made = make_keys(folder, run=run, hosts=[host for host in hosts.split(",") if host], days=days)
    for path in made:
        words.print(f"[green]✓[/] {path}")
    first = hosts.split(",")[0]
    words.print(
        f"\ntightwire server --listen grpc+tls://0.0.0.0:7000 --token-file {folder}/tokens --cert {folder}/server.pem "
        f"--key {folder}/server-key.pem\n"
        f"tightwire train --recipe easgd --server grpc+tls://{first}:7000 --token-file {folder}/{run}.token "
        f"--ca {folder}/ca.pem\n"
        f"tightwire server --status grpc+tls://{first}:7000 --token-file {folder}/{run}.watch.token "
        f"--ca {folder}/ca.pem\n\n"
        f"Mutual TLS: add --client-ca {folder}/ca.pem to the server, --cert {folder}/worker.pem --key "
        f"{folder}/worker-key.pem to the others.",
        soft_wrap=True, highlight=False,
    )  # fmt: skip
    write_json({"folder": str(folder), "run": run, "made": [str(path) for path in made]}, json_to)
