"""Names the settings of a checkpoint's ``generation_config.json`` that runs do not follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from engine.files import read_json

_IGNORED: dict[str, Any] = {  # with the value that leaves text unchanged
    "bad_words_ids": [], "begin_suppress_tokens": [], "encoder_no_repeat_ngram_size": 0,
    "encoder_repetition_penalty": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0,
    "exponential_decay_length_penalty": None, "forced_bos_token_id": None, "forced_eos_token_id": None,
    "frequency_penalty": 0.0, "guidance_scale": 1.0, "max_length": 20, "min_length": 0, "min_new_tokens": 0,
    "no_repeat_ngram_size": 0, "num_beams": 1, "penalty_alpha": 0.0, "presence_penalty": 0.0, "sequence_bias": None,
    "stop_strings": [], "suppress_tokens": [], "top_h": None, "typical_p": 1.0, "watermarking_config": None,
}  # fmt: skip
"""Settings of ``generation_config.json`` that change the text in transformers or vLLM, and are not followed here."""


def ignored_settings(folder: Path) -> str:
    """Returns a note that names the settings of a folder's ``generation_config.json`` that are not followed; "" for
    none.

    Raises:
        SafelightError: the file is damaged.
    """
    path = folder / "generation_config.json"
    raw = read_json(path) if path.exists() else {}
    found = [name for name, neutral in _IGNORED.items() if raw.get(name) not in (None, neutral)]
    return f"these settings of generation_config.json are not followed: {', '.join(found)}" if found else ""
