"""``--think`` and ``--thinking-tokens``: the bound holds, and is refused or not offered in vain."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.settings.strip import SettingsStrip
from app.settings.values import SettingsValues
from engine.service import LoadReply, LoadRequest, LocalBackend, ModelLoaded
from tests.app.cli.calling import Capture, refused, run

MASKED = Path(__file__).resolve().parents[3] / "assets" / "models" / "safelight-masked"
DECODERS = ("masked_diffusion", "autoregressive", "self_speculation")
BUDGET = 2


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An embedded model in whose vocabulary two tokens are a thought's, and whose template opens one where asked."""
    folder = tmp_path_factory.mktemp("models") / "thinker"
    shutil.copytree(MASKED, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary, special = tokenizer["model"]["vocab"], tokenizer["added_tokens"][0]
    for name, old in (("<think>", "π"), ("</think>", "→")):
        token = vocabulary[name] = vocabulary.pop(old)
        tokenizer["added_tokens"].append({**special, "id": token, "content": name, "special": False})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    template = (folder / "chat_template.jinja").read_text()
    (folder / "chat_template.jinja").write_text(template + "{% if enable_thinking %}{{ '<think>\n' }}{% endif %}")
    return folder


def test_a_thought_has_so_many_tokens(thinker: Path, capsys: Capture) -> None:
    ask = ("generate", "Spell the word robot.", "--model", thinker, "--device", "cpu", "--json")
    free = json.loads(run(capsys, *ask, "--think", "--max-new-tokens", 24)[1])
    assert free["text"] == ""  # the thought is never closed
    code, out, _ = run(capsys, *ask, "--think", "--max-new-tokens", 24, "--thinking-tokens", BUDGET)
    found = json.loads(out)
    assert code == 0
    assert free["thinking"].startswith(found["thinking"])
    assert len(found["thinking"]) == BUDGET  # a token is a letter
    assert found["tokens"] == BUDGET + 1 + len(found["text"])


def test_the_window_offers_a_bound_where_the_model_has_an_end_of_thoughts(thinker: Path, qtbot: QtBot) -> None:
    strip = SettingsStrip(SettingsValues(decoders=DECODERS))
    qtbot.addWidget(strip)
    hidden = []
    for path in (thinker, MASKED):
        replies: list[LoadReply] = []
        LocalBackend().load(LoadRequest(str(path), ""), replies.append)
        (model,) = [reply.model for reply in replies if isinstance(reply, ModelLoaded)]
        strip.allow(model.settings)
        hidden.append([name for name, box in strip.boxes.items() if box.parentWidget().isHidden()])
        assert strip.seed.isEnabled()
    assert set(hidden[1]) - set(hidden[0]) == {"thinking_tokens"}


def test_what_is_in_vain_is_refused(thinker: Path, capsys: Capture) -> None:
    plain = ("generate", "Spell cat.", "--model", "safelight-masked", "--thinking-tokens", BUDGET)
    own = ("generate", "Spell cat.", "--model", thinker, "--device", "cpu", "--thinking-tokens", BUDGET)
    wedlm = ("generate", "Spell cat.", "--model", "safelight-wedlm", "--thinking-tokens", BUDGET)
    for arguments, message in (
        ((*plain, "--think"), "this model cannot think before it answers; leave out --think"),
        (plain, "this model has no token that ends a thought"),
        (own, "this run does not think; ask the model to think"),
        (wedlm, "the decoder causal_parallel cannot limit thinking"),
        ((*own[:-1], -1), "the number of thinking tokens must be a whole number from 0"),
    ):
        refused(capsys, message, *arguments)
