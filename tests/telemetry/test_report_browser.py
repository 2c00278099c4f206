"""The report in a real browser: plots are drawn, nothing is loaded, nothing goes wrong, nothing sticks out.

Chromium is spoken to through two pipes (``--remote-debugging-pipe``: JSON messages ended by NUL), so no port is opened
and no driver is needed.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
]

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium: apt-get install chromium"),
]


class Browser:
    """A headless chromium with one page, driven by its debugging protocol."""

    def __init__(self, profile: Path) -> None:
        assert CHROMIUM is not None
        to_read, self._to = os.pipe()
        self._from, from_write = os.pipe()
        moved = {3: to_read, 4: from_write}  # chromium reads commands from 3 and answers on 4
        command = [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        shell = ["sh", "-c", f'exec "$@" 3<&{moved[3]} 4>&{moved[4]}', "sh", *command]
        self._process = subprocess.Popen(shell, pass_fds=moved.values(), stderr=subprocess.DEVNULL)
        for end in moved.values():
            os.close(end)
        self._buffer = b""
        self._number = 0
        self.heard: list[dict[str, Any]] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.tell(f"{domain}.enable")

    def close(self) -> None:
        """End chromium."""
        self.ask("Browser.close")
        os.close(self._to)
        os.close(self._from)
        self._process.wait(timeout=20)

    def tell(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the page."""
        return self.ask(method, self._session, **params)

    def ask(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; what happens meanwhile is kept in ``heard``."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 40
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
            self.heard.append(answer)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))
            got = os.read(self._from, 1 << 20) if ready else b""
            assert got, f"chromium said nothing more; exit code {self._process.poll()}"
            self._buffer += got
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def value(self, expression: str) -> Any:
        """What a JavaScript expression (or the promise it is) gives."""
        got = self.tell("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in got, got
        return got["result"].get("value")

    def show(self, page: Path, *, width: int = 1280, scheme: str = "light", media: str = "") -> None:
        """Open a page and wait until its plots are drawn."""
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.tell("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])  # fmt: skip
        self.tell("Page.navigate", url=page.as_uri())
        deadline = time.monotonic() + 40
        while not self.value("document.documentElement?.dataset.drawn"):
            assert time.monotonic() < deadline, f"the plots were not drawn: {self.complaints()}"
            time.sleep(0.05)

    def requests(self) -> list[str]:
        """All that was loaded over any scheme."""
        return [m["params"]["request"]["url"] for m in self.heard if m["method"] == "Network.requestWillBeSent"]

    def complaints(self) -> list[dict[str, Any]]:
        """Errors and warnings on the console, uncaught exceptions, failed requests."""
        bad = []
        for message in self.heard:
            method, params = message["method"], message["params"]
            if method in ("Runtime.exceptionThrown", "Network.loadingFailed"):
                bad.append(message)
            if method == "Log.entryAdded" and params["entry"]["level"] in ("warning", "error"):
                bad.append(message)
            if method == "Runtime.consoleAPICalled" and params["type"] in ("warning", "error", "assert"):
                bad.append(message)
        return bad
