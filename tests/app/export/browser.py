"""Drives a headless Chromium over its own pipe, with the standard library alone."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PATIENCE_SECONDS = 60.0
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


class Browser:
    """One page at a time. ``complaints`` collects what it wrote to the console and the exceptions it threw."""

    def __init__(self, program: str, folder: Path) -> None:
        there, self._write = os.pipe()
        self._read, here = os.pipe()
        flags = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"),
            *("--disable-dev-shm-usage", "--disable-background-networking", f"--user-data-dir={folder}"),
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        ]
        # The browser reads its orders from descriptor 3 and answers on 4.
        shell = f'exec "$@" 3<&{there} 4>&{here}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "bash", program, *flags, "about:blank"],
            pass_fds=(there, here),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(there)
        os.close(here)
        self._buffer = b""
        self._number = 0
        self.complaints: list[str] = []
        self.requests: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **values: Any) -> Any:
        """Ask the browser for something and wait for its answer."""
        self._number += 1
        asked: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if getattr(self, "_session", None):
            asked["sessionId"] = self._session
        os.write(self._write, json.dumps(asked).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, message["error"]
                return message["result"]
            self._take(message)

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE_SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            read = os.read(self._read, 2**16)
            assert read, "the browser has ended"
            self._buffer += read
        line, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(line)
        return found

    def _take(self, message: dict[str, Any]) -> None:
        method, values = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(values["exceptionDetails"])[:500])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(values["args"])[:500])
        elif method == "Log.entryAdded":
            self.complaints.append(str(values["entry"].get("text")))
        elif method == "Network.requestWillBeSent":
            self.requests.append(str(values["request"]["url"]))

    def open(self, path: Path, link: str = "") -> None:
        """Show a page and wait until it says that it is ready."""
        self.value("window.isLeft = true")  # what is asked before the next page has come is answered by this one
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url="about:blank")  # the same file with another link would not be read again
        self.wait("!window.isLeft && location.href === 'about:blank'")
        self.call("Page.navigate", url=path.as_uri() + (f"#{link}" if link else ""))
        self.wait("Boolean(document.documentElement && document.documentElement.dataset.ready)")

    def value(self, script: str) -> Any:
        """Returns the value of an expression on the page."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait(self, script: str) -> None:
        """Until an expression is true on the page."""
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = self.call("Runtime.evaluate", expression=script, returnByValue=True)
            if found["result"].get("value") is True:
                return
            assert time.monotonic() < until, f"never true: {script}; {self.complaints}"
            time.sleep(0.005)  # the processor is the browser's

    def press(self, key: str, *, shift: bool = False) -> None:
        """A key as a person presses it."""
        values: dict[str, Any] = {"key": key, "modifiers": 8 if shift else 0}
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **values, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **values)

    def click(self, selector: str) -> None:
        """The mouse, in the middle of an element."""
        script = """(() => {
            const found = document.querySelector(SELECTOR);
            found.scrollIntoView({block: "center"});
            const box = found.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        })()"""
        place = self.value(script.replace("SELECTOR", json.dumps(selector)))
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def close(self) -> None:
        with contextlib.suppress(AssertionError, OSError):
            self._session = ""
            self.call("Browser.close")
        os.close(self._write)
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)


def start(folder: Path) -> Iterator[Browser]:
    """A browser for a fixture; skips where there is none."""
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium is installed")
    if not Path("/bin/bash").exists():
        pytest.skip("no bash to hand the browser its pipes with")
    browser = Browser(program, folder)
    try:
        yield browser
    finally:
        browser.close()
