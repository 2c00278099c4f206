"""`tightwire server`: a parameter server that stands alone, or a look at one."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tightwire.cli.options import Json

_LIMITS = "Limits"


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command()(server)


def server(
    *,
    listen: Annotated[
        str, typer.Option(metavar="grpc+tls://ADDRESS:PORT", help="Where to listen.")
    ] = "grpc://127.0.0.1:7000",
    token_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="The tokens that are let in, each into its own run.")
    ] = None,
    cert: Annotated[str | None, typer.Option(metavar="FILE", help="The server's certificate.")] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="The key of that certificate.")] = None,
    client_ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="Let in only who has a certificate of this authority too.")
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen off the loopback without TLS or tokens: everybody may come in.")
    ] = False,
    join: Annotated[
        str | None,
        typer.Option(metavar="grpc+tls://HOST:PORT,…", help="Share the work of these servers in runs with --copies."),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="grpc+tls://HOST:PORT", help="With --join: where others find this one, if not where it listens."
        ),
    ] = None,
    status: Annotated[
        str | None, typer.Option(metavar="grpc+tls://HOST:PORT", help="Do not serve; say how a server is doing.")
    ] = None,
    ca: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --status or --join: whose certificates to believe.")
    ] = None,
    message_mb: Annotated[
        int, typer.Option(help="The largest message that is taken, in MB.", rich_help_panel=_LIMITS)
    ] = 8590,
    client_mb: Annotated[
        int, typer.Option(help="What one connection may have under way, in MB.", rich_help_panel=_LIMITS)
    ] = 17180,
    streams: Annotated[int, typer.Option(help="Calls of one connection at a time.", rich_help_panel=_LIMITS)] = 64,
    connections: Annotated[int, typer.Option(help="Connections at a time.", rich_help_panel=_LIMITS)] = 1024,
    json_to: Json = None,
) -> None:
    """Keep parameters for workers on other machines, or look at a server that does.

    Workers find it with `tightwire train --server`. It knows no model: the first worker of a run describes what to
    keep. Off the loopback it demands TLS and a token (`tightwire keys` makes them) and does not start without, unless
    `--insecure`. With `--join` it may be started while runs are under way: they need not have named it.
    """
    if status is not None:
        _show_status(status, token_file, cert, key, ca, json_to)
        return
    from tightwire.cli.show import console
    from tightwire.engines.serving import serve
    from tightwire.links.door import own_door
    from tightwire.links.limits import Limits

    words = console(json_to)
    limits = Limits(message_mb * 10**6, client_mb * 10**6, streams, connections)
    door = own_door(
        listen, token_file=token_file, certificate_file=cert, key_file=key, client_authority_file=client_ca,
        insecure=insecure, limits=limits,
    )  # fmt: skip

    def say(text: str) -> None:
        words.print(text, highlight=False, soft_wrap=True)

    joining = None
    if join is not None:
        from tightwire.engines.joining import Joining, reached_at
        from tightwire.links.access import Access

        authority = Access(authority_file=ca).authority()
        joining = Joining(door, at=reached_at(listen, at), to=join.split(","), authority=authority, say=say)
    serve(door, say, joining)


def _show_status(
    where: str, token_file: str | None, cert: str | None, key: str | None, ca: str | None, json_to: str | None
) -> None:
    from tightwire.cli.show import console, write_json
    from tightwire.engines.serving import ask_status
    from tightwire.links.access import Access

    words = console(json_to)
    told: dict[str, Any] = ask_status(where, Access((where,), token_file, cert, key, ca))
    words.print(f"[bold]{where}[/] run {told['run'] or '(any)'}: {len(told['machines'])} shards")
    for worker in told["workers"]:
        words.print(
            f"  rank {worker['rank']}: {worker['state']}, {worker['asked']} questions, "
            f"heard {worker['heard_s_ago']:g} s ago"
        )
    for reason, count in sorted(told["refused"].items()):
        words.print(f"  refused {count} × {reason}")
    write_json(told, json_to)
