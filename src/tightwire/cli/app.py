"""The `tightwire` command: its subcommands, and errors as one sentence."""

from __future__ import annotations

import os
import sys

import typer

from tightwire.cli import (
    bench,
    chaos,
    compare,
    doctor,
    export,
    inspect,
    keys,
    lab,
    plan,
    recipes,
    report,
    resume,
    search,
    server,
    shrink,
    train,
)

app = typer.Typer(
    help="Train deep networks over narrow wires: every method a recipe, every byte counted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog="Try: tightwire train --recipe local-sgd, or tightwire compare --recipes sync-sgd,dgc --lab 100mbit",
)
for module in (
    recipes,
    plan,
    train,
    compare,
    report,
    resume,
    server,
    keys,
    lab,
    chaos,
    search,
    shrink,
    inspect,
    export,
    bench,
    doctor,
):
    module.add_to(app)


def main() -> None:
    """Run a command. What a person can cause ends as one sentence and status 2, without a traceback."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # torch tells in stack frames what we tell in a sentence
    sys.path.insert(0, "")  # module:function of the user's own is looked for where the command is run
    try:
        app()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if not _curable(error):
            raise
        print(f"tightwire: {error}", file=sys.stderr)
        sys.exit(130 if type(error).__name__ == "RunStopped" else 2)


def _curable(error: Exception) -> bool:
    """Whether the error is one of ours: a sentence that names the value and the remedy."""
    from tightwire.algebra.errors import TightwireError
    from tightwire.data.errors import DataError
    from tightwire.models.errors import ModelError

    return isinstance(error, TightwireError | DataError | ModelError)
