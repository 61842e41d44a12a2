"""Takes pictures of the real window with the real embedded model, in both themes: a fixed tour, a name a picture.

The scale comes from QT_SCALE_FACTOR in the environment. Everything happens in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import Request, urlopen

import keyring
from keyring.backend import KeyringBackend
from PySide6.QtWidgets import QApplication
from small_models import drawings
from small_models.sudoku_pictures import photograph
from stage import PausedBackend, frozen, load, opened, settle, wait_for

from app.bridge.engine_thread import EngineLink
from app.bridge.server_link import ServerState
from app.chat.messages.calls import CallView
from app.library import Library, NewMessage
from app.state.race.prompts import LaneSpec
from app.window.main_window import MainWindow
from engine import BASE, MINI, SIGHT, SUDOKU, gallery
from engine.tasks.drawings import picture_of
from engine.tools.declared import EXAMPLES, ToolServer

PUZZLE = "003100064080000302000500087070005000000009400805000000004000030050007000700801096"  # 25 givens
PROMPT = "Count from 4 to 43."
TOOL_PROMPT = "24 boxes hold 36 eggs each. How many in all?"
PARTS = ("decisions", "race", "server", "inspector", "pictures", "tools")
RICH = """\
A canvas begins as **noise**. At each step every position has an *entropy*

$$H_i = -\\sum_v p_{iv} \\ln p_{iv}$$

and those whose entropies add up to less than a bound are accepted:

```python
def accept(entropy: Tensor, bound: float) -> Tensor:
    order = entropy.argsort()
    within = entropy[order].cumsum(0) - entropy[order] <= bound
    return within.scatter(0, order, within)
```

| state | what it means |
|---|---|
| accepted | kept under the entropy bound |
| re-noised | replaced by a uniform random token |
| taken back | accepted once, doubted later |

- [x] stable: the best guess did not change
- [ ] confident: the mean entropy is low

> A block ends when it is both.
"""


def a_long_chat(library: Library) -> int:
    """A conversation of 60 messages that ends with a rich answer."""
    conversation = library.create(title="How a canvas settles", model=MINI)
    parent = None
    for turn in range(30):
        asked = "How does a canvas settle?" if turn == 29 else f"Question {turn + 1}"
        parent = library.add(conversation, NewMessage(parent, "user", asked))
        said = RICH if turn == 29 else f"Answer {turn + 1}, in a sentence or two of plain words."
        parent = library.add(conversation, NewMessage(parent, "assistant", said, model="Safelight Mini", seed=turn))
    return conversation


class Client(threading.Thread):
    """Asks the local server for an answer."""

    def __init__(self, state: ServerState, prompt: str) -> None:
        super().__init__()
        body = {"messages": [{"role": "user", "content": prompt}]}
        headers = {"Authorization": f"Bearer {state.key}", "Content-Type": "application/json"}
        self._request = Request(f"{state.url}/chat/completions", json.dumps(body).encode(), headers)
        self.start()

    def run(self) -> None:
        with urlopen(self._request) as answer:
            answer.read()


class Vault(KeyringBackend):
    """A keyring that lasts as long as this program."""

    priority = 1  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self._kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._kept[service, username] = password


class TextServer(BaseHTTPRequestHandler):
    """As vLLM answers, as far as the pictures need it."""

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [{"id": "google/diffusiongemma-26B-A4B-it", "owned_by": "vllm"}]})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        said = "A canvas is the block of tokens that is written at once."
        message = {"role": "assistant", "content": said}
        self._answer({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})

    def _answer(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args: object) -> None:
        """Nothing."""


@contextmanager
def text_server() -> Iterator[str]:
    """The address of a server that answers with text alone."""
    with ThreadingHTTPServer(("127.0.0.1", 0), TextServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Tour:
    """Goes through the window and shoots."""

    def __init__(self, window: MainWindow, link: EngineLink, backend: PausedBackend, out: Path) -> None:
        self.window, self.link, self.backend, self.out = window, link, backend, out

    def shoot(self, name: str, open_dialog: Callable[[], object] | None = None) -> None:
        """A picture in each theme, of the window or of a dialog that is opened over it."""
        for theme in ("darkroom", "paper"):
            self.window.appearance.choose(theme)
            if open_dialog is not None:
                open_dialog()
            settle()
            dialog = QApplication.activeModalWidget() or QApplication.activePopupWidget()
            path = self.out / f"{name}-{theme}.png"
            (dialog or self.window).grab().save(str(path))
            print(path)
            if dialog is not None:
                dialog.close()

    def developing(self, name: str, prompt: str) -> None:
        """An answer at half of its last canvas, and when it has settled."""
        window = self.window
        window.pages.chat().sending.send(prompt)

        def at_half() -> bool:
            active = window.context.session.active
            block = active.canvas.current if active is not None else None
            return block is not None and not block.committed and 4 * block.accepted_count >= block.length

        wait_for(lambda: at_half() or window.context.session.active is None, "half of the canvas")
        with frozen(self.link):
            self.shoot(name)
        wait_for(lambda: window.context.session.active is None, "the answer")
        settle(800)

    def run(self, prompt: str) -> None:
        """The whole tour."""
        window = self.window
        window.show()
        load(window, MINI)
        self.shoot("empty")
        self.developing("developing", prompt)
        self.shoot("settled")
        window.context.session.open(a_long_chat(window.context.session.library))
        settle()
        self.shoot("long")
        window.pages.chat().commands.delete(window.context.session.chat.turns[-1])
        window.context.say(
            "The library cannot be written: the disk is full. Make room; the conversation goes on in memory."
        )
        self.shoot("error")
        window.show_page("models")
        settle(4000)  # the memory plans are counted in a thread of their own
        self.shoot("models")
        window.show_page("chat")
        self.shoot("model-list", window.topbar.open_chooser)
        window.topbar.strip.setChecked(True)
        self.shoot("sampler")
        window.topbar.strip.setChecked(False)
        self.shoot("presets", window.pages.chat().presets.edit_presets)
        self.shoot("settings", window.dialogs.open_settings)
        self.shoot("palette", window.dialogs.open_palette)
        self.shoot("shortcuts", window.dialogs.open_shortcuts)
        self.deciding()
        self.racing()
        self.serving()
        load(window, SUDOKU)
        window.conversations.open_new()
        self.developing("sudoku", window.pages.chat().page.welcome.suggestions.prompts[1])
        self.solving()
        self.inspecting()
        self.seeing()
        self.calling()

    def only(self, part: str) -> None:
        """One part of the tour."""
        self.window.show()
        parts = (self.deciding, self.racing, self.serving, self.inspecting, self.seeing, self.calling)
        dict(zip(PARTS, parts, strict=True))[part]()

    def deciding(self) -> None:
        """The Decisions page: a state singly and jointly, a question's fields."""
        window = self.window
        load(window, MINI)
        window.show_page("decisions")
        deciding = window.pages["decisions"]
        page = deciding.page
        self.shoot("decisions-empty")
        for name, is_joint in (("decisions", True), ("decisions-single", False)):
            page.column.examples.activated.emit(0)
            page.column.joint.setChecked(is_joint)
            page.decide.click()
            wait_for(lambda: not deciding.is_busy, "the decision")
            self.shoot(name)
        page.questions.cards[0].edit.click()
        self.shoot("decisions-fields")

    def seeing(self) -> None:
        """A chat about drawings: one in the composer, two that are answered, a run's; and a Sudoku that is read."""
        window = self.window
        load(window, SIGHT)
        window.show_page("chat")
        window.conversations.open_new()
        page = window.pages.chat().page
        self.shoot("pictures-empty")
        with TemporaryDirectory() as folder:
            for number in range(3):
                drawn, file = drawings.sample(random.Random(number), "test"), Path(folder) / f"drawing {number}.png"
                file.write_bytes(picture_of(drawn.scene).data)
                page.composer.pictures.add([str(file)])
                wait_for(lambda: not page.composer.pictures.is_reading, "the drawing")
                page.composer.set_text(drawn.asked[0][0])
                if number < 2:
                    page.composer.send.click()
                    wait_for(lambda: window.context.session.active is None, "the answer")
        self.shoot("pictures")
        page.composer.clear()
        window.pages.chat().commands.inspect(window.context.session.chat.turns[-1].answer, 0)
        self.shoot("pictures-inspector")
        load(window, SUDOKU)
        window.show_page("sudoku")
        solving = window.pages["sudoku"]
        with TemporaryDirectory() as folder:
            photo = Path(folder) / "sudoku.png"
            photo.write_bytes(photograph(random.Random(7), PUZZLE, 700).picture().data)
            solving.read_picture(str(photo))
            wait_for(lambda: not solving.is_busy, "the puzzle")
        self.shoot("board-picture")

    def serving(self) -> None:
        """The server page: off, how to connect a program, and requests, one of which is held midway."""
        window, context = self.window, self.window.context
        load(window, MINI)
        window.show_page("server")
        page = window.pages["server"].page
        self.shoot("server-off")
        context.choose_server("server", True)
        wait_for(lambda: context.server.is_on or bool(context.server.state.problem), "the server")
        page.show_connecting()
        self.shoot("server-connect")
        page.show_requests()
        for prompt in ("Reverse the word canvas.", "Repeat the word robot."):
            asked = Client(context.server.state, prompt)
            wait_for(lambda asked=asked: not asked.is_alive(), "an answer")
        self.backend.hold_after(6)
        asked, waits = (Client(context.server.state, prompt) for prompt in (PROMPT, "Sort the letters of darkroom."))
        wait_for(lambda: context.server.unfinished == 2, "two requests")
        wait_for(lambda: any(len(one.trace.steps) > 2 for one in context.server.requests[:2] if one.trace), "steps")
        settle()
        self.shoot("server")
        next(row for row in page.requests.rows.values() if row.stop.isVisible()).inspect.click()
        self.shoot("server-inspected")
        self.backend.go_on()
        wait_for(lambda: not asked.is_alive() and not waits.is_alive(), "the last answers")
        self.reaching()
        context.choose_server("server", False)

    def calling(self) -> None:
        """The chat with tools: a call that waits for leave, the answer from its result, and the tools' settings."""
        window, session = self.window, self.window.context.session
        tools = window.context.tools
        load(window, MINI)
        window.show_page("chat")
        window.conversations.open_new()
        tools.set_servers((ToolServer("Example tools", EXAMPLES),))
        wait_for(lambda: bool(tools.offered), "the tools")
        window.pages.chat().sending.send(TOOL_PROMPT)

        def view() -> CallView | None:
            views = window.pages.chat().page.findChildren(CallView)
            return next((view for view in views if view.isVisible()), None)

        def waits() -> bool:
            shown = view()
            return shown is not None and shown.call.status == "asking"

        wait_for(waits, "the call")
        settle(800)
        self.shoot("tools-ask")
        call = view()
        assert call is not None
        call.once.click()

        def is_half_written() -> bool:
            active = session.active
            block = active.canvas.current if active is not None and active.status == "developing" else None
            return block is not None and not block.committed and 3 * block.accepted_count >= 2 * block.length

        wait_for(lambda: is_half_written() or session.active is None, "half of the answer")
        with frozen(self.link):
            self.shoot("tools-answering")
        wait_for(lambda: session.active is None, "the answer")
        settle(800)
        call = view()
        if call is not None:
            call.fold.click()
        settle()
        self.shoot("tools-answered")
        self.shoot("tools-settings", lambda: window.dialogs.open_setting("tools"))
        tools.set_servers(())

    def racing(self) -> None:
        """The Race page: before a race, midway and over, four lanes, a puzzle with other models."""
        window = self.window
        load(window, MINI)
        window.show_page("race")
        racing = window.pages["race"]
        one, mine = racing.page, racing.lanes.specs[0]
        self.shoot("race-empty")

        def race(prompt: str) -> None:
            one.field.setPlainText(prompt)
            one.race.click()
            wait_for(lambda: not racing.is_busy, "the race")
            one.clock.pause()

        race(PROMPT)
        one.clock.go(0.3 * one.clock.end)
        self.shoot("race-midway")
        one.clock.go(one.clock.end)
        self.shoot("race")
        bounds = (LaneSpec(MINI, "block_diffusion", {"entropy_bound": bound}) for bound in (0.5, 0.02))
        racing.lanes.set_all((mine, LaneSpec(BASE), *bounds))
        race("Sort the letters of darkroom.")
        one.clock.go(one.clock.end)
        self.shoot("race-four")
        racing.lanes.set_all((LaneSpec(SUDOKU), LaneSpec(BASE, adapter="sudoku-lora")))
        race(PUZZLE)
        one.clock.go(0.5 * one.clock.end)
        self.shoot("race-puzzle")

    def reaching(self) -> None:
        """The models page with servers: our own, one of text, and one that is not there."""
        window, state = self.window, self.window.context.server.state
        window.show_page("models")
        models = window.pages.models()
        servers = models.page.servers
        with text_server() as other:
            for count, (address, key) in enumerate(
                ((state.url, state.key), (other, ""), ("http://127.0.0.1:9", "")), 1
            ):
                servers.address.setText(address)
                servers.key.setText(key)
                servers.add_button.click()
                wait_for(lambda count=count: len(models.remote._reachability) == count, "the server's answer")
            base = next(base for base in servers.rows if base.startswith(other))
            servers.rows[base].load.click()
            wait_for(lambda: window.context.model is not None and window.context.loading is None, "the model")
            models.page.add_server.click()
            self.shoot("models-remote")
            window.show_page("chat")
            window.conversations.open_new()
            window.topbar.strip.setChecked(True)
            window.pages.chat().sending.send("What is a canvas?")
            wait_for(lambda: window.context.session.active is None, "the answer")
            self.shoot("remote-chat")
            window.topbar.strip.setChecked(False)

    def solving(self) -> None:
        """The Sudoku page: a puzzle at half of its run and solved."""
        window = self.window
        window.show_page("sudoku")
        solving = window.pages["sudoku"]
        page = solving.page
        page.board.paste_text(PUZZLE)
        self.shoot("board")
        solving.solve()
        wait_for(lambda: page.run.is_live and page.run.trace is not None, "the run")
        wait_for(lambda: not solving.is_busy, "the solution")
        self.shoot("board-solved")
        replay = page.run.player.replay
        assert replay is not None
        page.run.player.go(len(replay.frames) // 2)
        self.shoot("board-midway")

    def inspecting(self) -> None:
        """The inspector: its gallery, a hard Sudoku midway, and a change to it, in its tree and beside the original."""
        window = self.window
        window.show_page("inspector")
        inspector = window.pages.inspector()
        page = inspector.page
        page.close_trace()
        settle(1500)  # its pictures are read in a thread of their own
        self.shoot("inspector-gallery")
        inspector.open_key(str(next(one.path for one in gallery() if one.path.stem == "sudoku-hard")))
        page.player.go(5)
        page.player.select(4)
        page.overview.finish()
        self.shoot("inspector")
        inspector.forks.seed.setValue(5)
        inspector.forks.run.click()
        wait_for(lambda: inspector.continuations.is_forking, "the fork")
        wait_for(lambda: not inspector.continuations.is_forking, "the end of the fork")
        page.player.go(8)
        page.side.setCurrentWidget(page.change)
        self.shoot("inspector-fork")
        page.show_view(1)
        self.shoot("inspector-compare")
        page.show_view(0)
        for name, place in (("decision", 3), ("schema", 7)):
            path = next((one.path for one in gallery() if one.path.stem == name), None)
            if path is None:
                continue
            inspector.open_key(str(path), place)
            page.overview.finish()
            slots = page.player.trace.header.slots if page.player.trace is not None else ()
            page.player.select(slots[-1].position if slots else 15)
            self.shoot(f"inspector-{name}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where the PNG files go")
    parser.add_argument("--prompt", default=PROMPT)
    parser.add_argument("--only", choices=PARTS, help="this part of the tour alone")
    parser.add_argument("--size", default="1280x800", metavar="WxH", help="the window in logical pixels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--text", type=int, default=100, metavar="PERCENT", help="the size of all text")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    keyring.set_keyring(Vault())
    backend = PausedBackend()
    with opened(args.size, args.seed, "4", backend) as (window, link):
        window.appearance.set_text_percent(args.text)
        tour = Tour(window, link, backend, args.out)
        if args.only is None:
            tour.run(args.prompt)
        else:
            tour.only(args.only)
    return 0


if __name__ == "__main__":
    sys.exit(main())
