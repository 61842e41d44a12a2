"""A window in a process of its own, to be killed or to be forbidden the network. Prints a line of JSON for each fact.

``developing``: asks a long prompt, reports every draft that is on screen, and hangs at the fifth, the run still going.
``offline``: switches offline on, forbids every use of a network, loads, asks, and looks at the models.
"""

from __future__ import annotations

import json
import sys

FORBIDDEN = ("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto")


def report(**facts: object) -> None:
    print(json.dumps(facts), flush=True)


def main(mode: str) -> None:
    from PySide6.QtCore import QTimer

    from app.bridge.engine_thread import EngineLink
    from app.main import application, make_window
    from app.settings.store import default_settings
    from app.state.run.pace import FULL_SPEED
    from engine import MINI
    from engine.service import LocalBackend

    app = application()
    window = make_window(EngineLink(LocalBackend()), default_settings(), seed=3)
    window.context.values.speed = FULL_SPEED
    window.context.values.overrides |= {"confidence_threshold": 0.0, "max_new_tokens": 32 if mode == "offline" else 128}
    window.context.apply_values()
    window.show()
    if mode == "offline":
        window.context.set_offline(True)
        sys.addaudithook(forbid)
    window.context.load(MINI)
    asked = False
    drafts = 0

    def look() -> None:
        nonlocal asked, drafts
        if window.context.model is None:
            return
        if not asked:
            asked = True
            window.context.session.progressed.connect(progressed)
            window.pages.chat().sending.send("Count from 4 to 43.")
            return
        if mode == "offline" and window.context.session.active is None:
            window.show_page("models")
            window.pages.models().page.small.fold.click()
            rows = window.pages.models().page.rows.values()
            actions = [a for row in rows for a, b in row.buttons.items() if b.isVisible() and b.isEnabled()]
            report(answer=window.context.session.chat.turns[0].answer.text, actions=actions, used=used)
            window.close()
            app.quit()

    def progressed() -> None:
        nonlocal drafts
        answer = window.context.session.chat.active
        if mode == "developing" and answer and answer.stats.total_steps and window.context.model:
            drafts += 1
            report(draft=answer.draft(window.context.model.decode).text, steps=answer.stats.total_steps)
            if drafts == 5:
                import time

                time.sleep(600)  # until the kill

    timer = QTimer()
    timer.timeout.connect(look)
    timer.start(20)
    app.exec()
    window.close()


used: list[str] = []


def forbid(event: str, arguments: tuple[object, ...]) -> None:
    if event in FORBIDDEN:
        used.append(f"{event} {arguments}")
        raise RuntimeError(f"offline, and yet: {event} {arguments}")


if __name__ == "__main__":
    main(sys.argv[1])
