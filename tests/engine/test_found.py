"""Models in the stores of other programs: found, named, opened; what is damaged is listed with a reason."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from engine import MINI, SafelightError, found, load_model
from engine.catalog import resolve
from engine.found import FoundModel, find, keep, kept, scan, stores
from engine.hub_cache import snapshot_in
from engine.model_files import gguf_parts, is_gguf, model_at, model_title
from engine.models.opening import open_model, plan_model
from tests.engine import gguf_files
from tests.engine.stores import COMMIT, hugging_face, lm_studio, ollama


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GGUF file that loads as it is."""
    return gguf_files.small(tmp_path_factory.mktemp("gguf") / "small-Q8_0.gguf", resolve(MINI), "llama")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty home, with no variable that leads elsewhere."""
    names = ("OLLAMA_MODELS", "LLAMA_CACHE", "JAN_DATA_FOLDER", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME")
    for name in ("HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", *names):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(found, "home", lambda: tmp_path)
    monkeypatch.setattr(found, "OLLAMA_SERVICE", tmp_path / "service")
    return tmp_path


def by_name(*added: Path) -> dict[str, FoundModel]:
    return {each.name: each for each in scan(added)}


def repository(home: Path, repo: str = "org/name", **changes: object) -> Path:
    """A folder of the small model in the cache, with another config. Returns the snapshot."""
    source = home / "source" / repo
    shutil.copytree(resolve(MINI), source)
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | changes))
    return hugging_face(home / ".cache/huggingface/hub", repo, source.iterdir())


@pytest.mark.skipif(os.name == "nt", reason="the cache has no links on Windows without a right to make them")
class TestStores:
    def test_every_store_is_found_and_named(self, home: Path, file: Path) -> None:
        cache = home / ".cache/huggingface/hub"
        folder = repository(home)
        one = hugging_face(cache, "org/small-GGUF", [file])
        lm = lm_studio(home / ".lmstudio/models", "publisher", "repo", file)
        older = home / ".cache/lm-studio/models/old/repo/older.gguf"
        blob = ollama(home / ".ollama/models", "smollm2:135m", file)
        ollama(home / ".ollama/models", "smollm2", file)
        ollama(home / ".ollama/models", "mine:x", file, space="me")
        ollama(home / ".ollama/models", "theirs:q8", file, host="hf.co", space="org")
        llama = home / ".cache/llama.cpp/org_repo_small.gguf"
        jan = home / ".local/share/Jan/data/llamacpp/models/org/Small_Q8/model.gguf"
        for place in (older, llama, jan):
            place.parent.mkdir(parents=True)
            os.link(file, place)
        shown = {each.name: (each.store, each.path) for each in by_name().values()}
        assert shown == {
            "org/name": ("Hugging Face", folder),
            "org/small-GGUF": ("Hugging Face", one / file.name),
            "small-Q8_0": ("LM Studio", lm),
            "older": ("LM Studio", older),
            "smollm2:135m": ("Ollama", blob),
            "smollm2": ("Ollama", blob),
            "me/mine:x": ("Ollama", blob),
            "hf.co/org/theirs:q8": ("Ollama", blob),
            "org_repo_small": ("llama.cpp", llama),
            "Small_Q8": ("Jan", jan),
        }
        assert all(each.runs and each.bytes > 0 for each in by_name().values())
        assert by_name()["org/name"].bytes == sum(each.stat().st_size for each in folder.iterdir())

    def test_variables_and_settings_lead_to_stores(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = home / ".local/share/Jan/settings.json"
        settings.parent.mkdir(parents=True)
        for text, data in (("{", home / ".local/share/Jan/data"), (f'{{"data_folder": "{home}/else"}}', home / "else")):
            settings.write_text(text)
            assert ("Jan", data / "llamacpp" / "models") in list(stores())
        for name in ("HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE", "JAN_DATA_FOLDER"):
            monkeypatch.setenv(name, str(home / name))
        places = {path for _, path in stores()}
        assert {home / name for name in ("HF_HUB_CACHE", "OLLAMA_MODELS", "LLAMA_CACHE")} < places
        assert home / "JAN_DATA_FOLDER" / "llamacpp" / "models" in places
        monkeypatch.delenv("HF_HUB_CACHE")
        monkeypatch.setenv("HF_HOME", str(home / "hf"))
        assert ("Hugging Face", home / "hf" / "hub") in list(stores())

    def test_what_cannot_run_has_one_reason(self, home: Path, file: Path) -> None:
        cache = home / ".cache/huggingface/hub"
        repository(home, "org/bert", model_type="bert")
        repository(home, "org/awq", quantization_config={"quant_method": "awq"})
        repository(home, "org/mlx", quantization={"bits": 4, "group_size": 64})
        broken = repository(home, "org/broken")
        Path(os.path.realpath(broken / "model.safetensors")).unlink()
        torn = repository(home, "org/torn") / "config.json"
        torn.unlink()
        torn.write_text("{")
        words, damaged = home / "words.txt", home / "damaged.gguf"
        words.write_text("no model")
        damaged.write_bytes(b"GGUF\3\0")
        hugging_face(cache, "org/words", [words])
        hugging_face(cache, "org/bin", [home / "source/org/broken/config.json"])
        other = gguf_files.write(home / "other.gguf", {}, {}, "qwen3moe")
        eye = gguf_files.write(home / "mmproj-eye.gguf", {}, {}, "clip")
        for own in (other, eye, damaged):
            lm_studio(home / ".lmstudio/models", "a", own.stem, own)
        gone = ollama(home / ".ollama/models", "gone", file)
        gone.unlink()
        begun = cache / "models--org--begun/blobs/x.incomplete"
        manifest = home / ".ollama/models/manifests/registry.ollama.ai/library/torn/latest"
        for place in (begun, manifest):
            place.parent.mkdir(parents=True)
            place.write_text("[]")
        shown = {each.name: (each.why, each.detail) for each in by_name().values()}
        assert shown.pop("org/torn")[0] == "damaged"
        assert shown == {
            "org/bert": ("family", "bert"),
            "org/awq": ("form", "awq"),
            "org/mlx": ("form", "mlx"),
            "org/broken": ("damaged", "model.safetensors is missing; download it again"),
            "org/words": ("none", "it holds no language model"),
            "org/begun": ("damaged", "its download is not finished; download it again"),
            "org/bin": ("form", "no safetensors"),
            "other": ("family", "qwen3moe"),
            "damaged": ("damaged", "its file is damaged, or not in the form GGUF; download it again"),
            "gone": ("damaged", f"{gone.name} is missing; download it again"),
            "torn": ("form", "in several files of Ollama's"),
        }

    def test_the_snapshot_of_main_is_taken_or_else_the_newest(self, home: Path) -> None:
        snapshot = repository(home)
        other = snapshot.with_name("f" * 40)
        shutil.copytree(snapshot, other, symlinks=True)
        assert snapshot_in(snapshot.parent.parent) == snapshot
        (snapshot.parent.parent / "refs" / "main").write_text("\0" * 300)
        os.utime(other, (2e9, 2e9))
        assert snapshot_in(snapshot.parent.parent) == other
        assert list(by_name()) == ["org/name"]

    def test_several_files_of_a_repository_have_names_of_their_own(self, home: Path, file: Path) -> None:
        cache, other = home / ".cache/huggingface/hub", home / "small-F16.gguf"
        shutil.copy(file, other)
        other.open("ab").close()
        hugging_face(cache, "org/small-GGUF", [file, other])
        assert list(by_name()) == ["org/small-GGUF/small-F16", "org/small-GGUF/small-Q8_0"]
        with pytest.raises(SafelightError, match="name of several models; give one of them: org/small-GGUF/small-F16"):
            resolve("org/small-GGUF", files=True)
        assert resolve("org/small-GGUF/small-F16", files=True).name == other.name

    def test_links_are_followed_and_loops_end(self, home: Path, file: Path) -> None:
        place = lm_studio(home / "disk", "publisher", "repo", file)
        (home / ".lmstudio").mkdir()
        (home / ".lmstudio" / "models").symlink_to(home / "disk")
        (home / "disk" / "publisher" / "loop").symlink_to(home / "disk")
        (only,) = scan([home / "disk"])
        assert only.path == home / ".lmstudio/models/publisher/repo" / place.name

    def test_any_path_to_a_model_opens_it(self, home: Path, file: Path) -> None:
        folder = repository(home)
        repo = folder.parent.parent
        weights = Path(os.path.realpath(folder / "model.safetensors"))
        for path in (repo, folder, folder / "model.safetensors", folder / "config.json"):
            assert (model_at(path), model_title(model_at(path))) == (folder, "org/name")
            assert resolve(path) == folder
        with pytest.raises(SafelightError, match="is a file; give the model folder"):
            resolve(weights)
        snapshot = hugging_face(home / ".cache/huggingface/hub", "org/small-GGUF", [file])
        blob = Path(os.path.realpath(snapshot / file.name))
        assert is_gguf(blob)
        for path in (snapshot, snapshot.parent.parent, snapshot / file.name, blob):
            assert resolve(path, files=True) in (snapshot / file.name, blob)
            assert open_model(path).name == plan_model(path, 64).model == "org/small-GGUF"
        own = ollama(home / ".ollama/models", "smollm2", file)
        assert open_model(own).name == "smollm2"
        assert not is_gguf(folder / "tokenizer.json")

    def test_a_model_is_opened_by_its_name(self, home: Path, file: Path) -> None:
        folder = repository(home)
        place = lm_studio(home / ".lmstudio/models", "Publisher", "Repo-GGUF", file)
        blob = ollama(home / ".ollama/models", "smollm2:135m", file)
        latest = ollama(home / ".ollama/models", "smollm2", file)
        for name, path in {
            "org/name": folder,
            "Org/Name": folder,
            "small-Q8_0": place,
            "publisher/repo-gguf": place,
            "small-Q8_0.gguf": place,
            "smollm2:135m": blob,
            "smollm2:latest": latest,
        }.items():
            assert find(name) == path
            assert resolve(name, files=True) == path
        assert load_model("org/name", device="cpu").name == "org/name"
        assert load_model("smollm2:135m", device="cpu").name == "smollm2"
        for name in ("", "org", "nam", "smollm2:7b", "models"):
            assert find(name) is None
        Path(os.path.realpath(folder / "model.safetensors")).unlink()
        for name, message in (
            ("no/thing", r"there is no model at no/thing; .* a name of safelight models"),
            ("org/name", r"org/name cannot be loaded: model\.safetensors is missing; download"),
        ):
            with pytest.raises(SafelightError, match=message):
                resolve(name)


def test_two_of_one_name_are_distinguished(home: Path, file: Path) -> None:
    first = lm_studio(home / ".lmstudio/models", "a", "repo", file)
    second = lm_studio(home / "mine", "b", "repo", file)
    assert {each.name: each.path for each in scan([home / "mine"])} == {"small-Q8_0": first, str(second): second}


def test_parts_are_one_model_and_a_missing_one_is_said(home: Path) -> None:
    folder = home / ".lmstudio/models/a/parts"
    folder.mkdir(parents=True)
    gguf_files.small(folder / "small.gguf", resolve(MINI), "llama", most_tensors=8)
    parts = gguf_parts(sorted(folder.iterdir())[0])
    (only,) = scan()
    assert (only.name, only.path, only.bytes) == ("small", parts[0], sum(part.stat().st_size for part in parts))
    parts[1].unlink()
    (only,) = scan()
    assert (only.why, only.detail) == ("damaged", f"{parts[1].name} is missing; download it again")


def test_added_folders_are_kept_for_commands(home: Path, file: Path) -> None:
    place = lm_studio(home / "mine", "a", "repo", file)
    assert (kept(), find("small-Q8_0")) == ((), None)
    keep([home / "mine"])
    assert (kept(), find("small-Q8_0")) == ((home / "mine",), place)
    (home / ".config/Safelight/models.json").write_text('{"folders": [1, "\\u0000"]}')
    assert scan(kept()) == ()
    (home / ".config/Safelight/models.json").write_text("[")
    assert kept() == ()


def test_a_search_is_bounded(home: Path, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = home / ".lmstudio/models"
    for depth in range(7):
        deep = deep / f"{depth}"
    lm_studio(deep, "a", "b", file)
    assert scan() == ()
    monkeypatch.setattr(found, "MAX_FOLDERS", 20)
    for number in range(40):
        lm_studio(home / "many", f"{number:02}", "repo", file)
    assert 0 < len(scan([home / "many"])) < 20


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither pipes in folders nor such names")
def test_planted_files_stop_no_search(home: Path, file: Path) -> None:
    mine = home / "mine"
    lm_studio(mine, "a", "repo", file)
    lm_studio(mine, "\x1b[31m", "repo", file)
    os.makedirs(os.fsencode(mine) + b"/\xff\xfe")
    for name in ("pipe", "deep", "table"):
        (mine / name).mkdir()
    os.mkfifo(mine / "pipe" / "config.json")
    os.mkfifo(mine / "pipe" / "model.gguf")
    (mine / "deep" / "config.json").write_text('{"a":' * 5000 + "1" + "}" * 5000)
    (mine / "table" / "config.json").write_text(json.dumps({"model_type": {"a": []}, "quantization_config": [1]}))
    store = home / ".ollama" / "models"
    blob = ollama(store, "ok", file)
    for name, content in {"up": "sha256:../../../etc/passwd", "none": 5, "list": []}.items():
        manifest = store / "manifests" / "registry.ollama.ai" / "library" / name / "latest"
        manifest.parent.mkdir()
        layer = {"mediaType": "application/vnd.ollama.image.model", "digest": content}
        manifest.write_text(json.dumps({"layers": [layer, 1, None]}))
    repo = home / ".cache/huggingface/hub/models--a--b"
    (repo / "snapshots").mkdir(parents=True)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text("../../../mine")
    shown = {each.name: each.why for each in scan([mine])}
    assert {name for name, why in shown.items() if not why} == {"small-Q8_0", "ok"}
    assert shown["a/b"] == shown["deep"] == shown["pipe"] == "damaged"
    assert shown["table"] == "none"
    assert shown["up"] == shown["none"] == shown["list"] == "form"
    assert find("ok") == blob


def test_names_out_of_files_are_one_printable_line(home: Path) -> None:
    (home / "mine/x").mkdir(parents=True)
    (home / "mine/x/config.json").write_text(json.dumps({"model_type": "a\n\x1b[31m" + "b" * 500}))
    (only,) = scan([home / "mine"])
    assert (only.why, only.family[:8], len(only.family)) == ("family", "a??[31mb", 120)


def test_the_commit_is_no_name() -> None:
    path = Path("/c/models--org--the--name/snapshots") / COMMIT
    assert model_title(path) == "org/the/name"
    assert model_title(path / "Q4") == "org/the/name/Q4"
    assert model_title(Path("/x/models--x")) == "x"
    assert model_title(Path("org/name")) == "name"
