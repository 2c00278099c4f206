"""A page as a picture: Chromium draws it, without a window.

Plotly's own way to PNG (kaleido) needs the same browser. There is none among our dependencies; without one a page is
written all the same.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from tightwire.engines.config import ConfigError

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_TIMEOUT_S = 60


def browser() -> str | None:
    """The first browser that is installed."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def screenshot(page: Path, out: Path, *, width: int = 1240, height: int = 1600) -> None:
    """Draw an HTML file of ours into a PNG file, in light colours."""
    program = browser()
    if program is None:
        raise ConfigError(f"{out} needs Chromium to be drawn; install it (apt-get install chromium), or write .html")
    with TemporaryDirectory(prefix="tightwire-") as home:
        drawn = Path(home) / "page.png"
        subprocess.run(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={home}",
             "--virtual-time-budget=10000", f"--window-size={width},{height}", f"--screenshot={drawn}",
             page.resolve().as_uri()],
            check=False, capture_output=True, timeout=_TIMEOUT_S,
        )  # fmt: skip
        if not drawn.exists():
            raise ConfigError(f"{program} drew nothing of {page}; look at it in a browser")
        shutil.copyfile(drawn, out)


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    head = picture.read_bytes()[:24]
    if head[:8] != b"\x89PNG\r\n\x1a\n":
        raise ConfigError(f"{picture} is no PNG file")
    width, height = struct.unpack(">II", head[16:24])
    return width, height
