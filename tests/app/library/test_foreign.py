"""Chats of other programs, in the shapes of their exports: what was said arrives whole, each branch in its place."""

from __future__ import annotations

import base64
import io
import json
import zipfile

import pytest
from PIL import Image

from app.library import Library, LibraryError, Whole
from app.library.foreign import ImportReport
from app.library.moving_in import move_in
from app.library.transfer import path_on_show, rounds_of


def png() -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 6), "red").save(file, "png")
    return file.getvalue()


PIXELS = f"data:image/png;base64,{base64.b64encode(png()).decode()}"


def tree(whole: Whole, parent: int | None = None) -> list:
    """The texts of a conversation, each with those that follow it."""
    return [[one.content, *tree(whole, one.id)] for one in whole.messages if one.parent == parent]


def shown(whole: Whole) -> list[str]:
    return [message.content for message in path_on_show(whole.messages)]


@pytest.fixture
def library(tmp_path):
    library = Library.open(tmp_path / "library")
    yield library
    library.close()


@pytest.fixture
def moved(library, tmp_path):
    """Imports an export that is given as files of a ZIP; returns the conversations and the report."""

    def move(files: dict[str, object]) -> tuple[list[Whole], ImportReport]:
        path = tmp_path / "export.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                data = content if isinstance(content, str | bytes) else json.dumps(content)
                archive.writestr(name, data)
        report = move_in(library, [path], ImportReport())
        return [library.whole(id) for id in report.imported], report

    return move


# ---------------------------------------------------------------- ChatGPT


def said(id, parent, role, content, **facts):
    content = content if isinstance(content, dict) else {"content_type": "text", "parts": [content]}
    message = {"id": id, "author": {"role": role}, "content": content, "recipient": "all", "weight": 1.0, **facts}
    return {"id": id, "parent": parent, "children": [], "message": message}


def chatgpt(*entries, current, **facts):
    mapping = {"root": {"id": "root", "message": None, "parent": None, "children": []}}
    mapping |= {entry["id"]: entry for entry in entries}
    return {"title": "A chat", "conversation_id": "c1", "create_time": 1_700_000_000.5, "update_time": 1_700_000_900.0,
            "mapping": mapping, "current_node": current} | facts  # fmt: skip


def test_chatgpt_s_branches_thoughts_calls_and_pictures_come_whole(moved, library):
    hidden = {"metadata": {"is_visually_hidden_from_conversation": True}}
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "sediment://file_00ab", "width": 8, "height": 6}
    chat = chatgpt(
        said("s", "root", "system", "", **hidden),
        said("m", "s", "user", {"content_type": "user_editable_context", "user_profile": "x"}, **hidden),
        said(
            "u1",
            "m",
            "user",
            {"content_type": "multimodal_text", "parts": [picture, "What is this?"]},
            create_time=None,
        ),
        said(
            "t1", "u1", "assistant", {"content_type": "thoughts", "thoughts": [{"summary": "Look", "content": "red"}]}
        ),
        said("c1", "t1", "assistant", {"content_type": "code", "text": '{"q": 1}'}, recipient="python"),
        said("r1", "c1", "tool", {"content_type": "execution_output", "text": "42"}),
        said("a1", "r1", "assistant", "A red square.", metadata={"model_slug": "gpt-5"}, create_time=1_700_000_100.0),
        said("a2", "u1", "assistant", "Another answer."),
        said("u2", "a1", "user", "Thanks"),
        said("u3", "a1", "user", "Really?"),
        said("a3", "u3", "assistant", "Yes\ue200cite\ue202turn0\ue201."),
        current="a3",
    )
    (whole,), report = moved({"conversations-000.json": [chat], "user.json": {"id": 1}, "file_00ab-x.png": png()})
    question = "What is this?"
    assert tree(whole) == [[question, ["A red square.", ["Thanks"], ["Really?", ["Yes."]]], ["Another answer."]]]
    assert shown(whole) == [question, "A red square.", "Really?", "Yes."]
    answer = whole.messages[1]
    (round_,) = rounds_of(answer)
    assert (round_.thinking, round_.calls[0].called, round_.calls[0].arguments, round_.calls[0].result) == (
        "Look\nred", "python", {"q": 1}, "42",
    )  # fmt: skip
    assert (answer.model, answer.created) == ("gpt-5", 1_700_000_100.0)
    assert (whole.messages[0].pictures[0].width, report.missing_pictures) == (8, 0)
    assert library.pictures.get(whole.messages[0].pictures[0].digest, 8, 6).data == png()
    assert (whole.summary.title, whole.summary.created) == ("A chat", 1_700_000_000.5)


def test_chats_split_over_files_come_once_and_what_is_unreadable_or_empty_is_counted(moved):
    empty = chatgpt(said("u", "root", "user", ""), current="u", conversation_id="c2")
    good = chatgpt(said("u", "root", "user", "Hi"), current="gone", title=None, create_time=None)
    files = {"conversations-000.json": [good, empty], "conversations-001.json": [good, {"mapping": {"x": 3}}]}
    (whole,), report = moved(files)
    assert (whole.summary.title, tree(whole)) == ("Hi", [["Hi"]])
    assert (report.known, report.empty, report.unreadable) == (1, 1, 1)
    assert (moved(files)[0], moved(files)[1].known) == ([], 2)  # nothing twice


def test_a_missing_picture_is_reported_and_a_circle_ends(moved):
    part = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://file-9"}
    chat = chatgpt(
        said("u", "a", "user", {"content_type": "multimodal_text", "parts": ["Look", part]}),
        said("a", "u", "assistant", "I see"),
        said("v", "root", "user", {"content_type": "multimodal_text", "parts": ["Look", part]}),
        current="u",
    )
    (whole,), report = moved({"conversations.json": [chat]})
    assert (tree(whole), report.missing_pictures) == ([["Look"]], 1)


# ---------------------------------------------------------------- Claude


def test_claude_s_edits_thinking_tools_and_files_come_whole(moved):
    def message(id, parent, sender, *parts, **facts):
        return {"uuid": id, "parent_message_uuid": parent, "sender": sender, "text": "flat", "content": list(parts),
                "created_at": "2025-05-01T10:00:00.000000Z"} | facts  # fmt: skip

    root = "00000000-0000-4000-8000-000000000000"
    file = {"file_name": "notes.txt", "extracted_content": "buy milk"}
    called = (
        {"type": "thinking", "thinking": "Search first."},
        {"type": "tool_use", "id": "t", "name": "search", "input": {"q": "milk"}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "found"}]},
        {"type": "text", "text": "Milk."},
    )
    chat = {
        "uuid": "x", "name": "", "created_at": "2025-05-01T10:00:00Z", "updated_at": "2025-05-02T10:00:00Z",
        "chat_messages": [
            message("1", root, "human", {"type": "text", "text": "What is in it?"}, attachments=[file], files=[]),
            message("2", "1", "assistant", *called),
            message("3", root, "human", {"type": "text", "text": "Edited"}),
            message("4", "3", "assistant", {"type": "text", "text": "Fine"}),
        ],
    }  # fmt: skip
    (whole,), _ = moved({"data/conversations.json": [chat], "users.json": []})
    assert tree(whole) == [["What is in it?", ["Milk."]], ["Edited", ["Fine"]]]
    assert shown(whole) == ["Edited", "Fine"]
    assert [(file.name, file.text) for file in whole.messages[0].attachments] == [("notes.txt", "buy milk")]
    (round_,) = rounds_of(whole.messages[1])
    assert (round_.thinking, round_.calls[0].arguments, round_.calls[0].result) == (
        "Search first.",
        {"q": "milk"},
        "found",
    )
    assert (whole.summary.title, whole.summary.created) == ("What is in it?", 1_746_093_600.0)


def test_claude_s_older_exports_without_a_tree_are_a_row(moved):
    chat = {"uuid": "y", "name": "Old", "chat_messages": [
        {"uuid": "1", "sender": "human", "text": "Hi"}, {"uuid": "2", "sender": "assistant", "text": "Hello"},
    ]}  # fmt: skip
    (whole,), _ = moved({"conversations.json": [chat]})
    assert tree(whole) == [["Hi", ["Hello"]]]


# ---------------------------------------------------------------- Open WebUI


def test_open_webui_s_branches_reasoning_and_pictures_come_whole(moved):
    thought = '<details type="reasoning" done="true" duration="2">\n<summary>Thought</summary>\n&gt; so\n</details>\n'
    call = '<details type="tool_calls" done="true" id="t" name="add" arguments="&quot;{\\&quot;a\\&quot;: 1}&quot;" '
    call += 'result="&quot;3&quot;">\n<summary>Tool Executed</summary>\n</details>\n'
    image = {"type": "image", "url": PIXELS}
    messages = {
        "1": {
            "id": "1",
            "parentId": None,
            "role": "user",
            "content": "Sum?",
            "files": [image],
            "timestamp": 1_700_000_001,
        },
        "2": {"id": "2", "parentId": "1", "role": "assistant", "content": thought + call + "It is 3.", "model": "m:7b"},
        "3": {"id": "3", "parentId": "1", "role": "assistant", "content": "Three"},
        "4": {"id": "4", "parentId": "2", "role": "user", "content": "Thanks"},
    }
    chat = {"params": {"system": "Be short."}, "history": {"messages": messages, "currentId": "4"}, "messages": []}
    entry = {
        "id": "o",
        "title": "Sums",
        "chat": chat,
        "created_at": 1_700_000_000,
        "updated_at": 1_700_000_009,
        "pinned": True,
    }
    (whole,), _ = moved({"chat-export-17.json": [entry]})
    assert tree(whole) == [["Sum?", ["It is 3.", ["Thanks"]], ["Three"]]]
    assert shown(whole) == ["Sum?", "It is 3.", "Thanks"]
    (round_,) = rounds_of(whole.messages[1])
    assert (round_.thinking, round_.calls[0].called, round_.calls[0].arguments, round_.calls[0].result) == (
        "so", "add", {"a": 1}, "3",
    )  # fmt: skip
    assert (whole.summary.system_prompt, whole.summary.pinned, whole.messages[1].model) == ("Be short.", True, "m:7b")
    assert len(whole.messages[0].pictures) == 1


# ---------------------------------------------------------------- LM Studio


def test_lm_studio_s_versions_and_thinking_come_whole(library, tmp_path):
    def step(text, **facts):
        return {"type": "contentBlock", "content": [{"type": "text", "text": text}], **facts}

    def answer(*steps):
        return {"type": "multiStep", "role": "assistant", "senderInfo": {"senderName": "qwen"}, "steps": list(steps)}

    def prompt(text):
        return {"type": "singleStep", "role": "user", "content": [{"type": "text", "text": text}]}

    chat = {
        "name": "Two versions", "pinned": False, "createdAt": 1_700_000_000_000, "systemPrompt": "Be kind.",
        "messages": [
            {"versions": [prompt("Hi")], "currentlySelected": 0},
            {"versions": [answer(step("One")), answer(step("hm", style={"type": "thinking"}), step("Two"),
                                                      {"type": "debugInfoBlock"})], "currentlySelected": 0},
            {"versions": [prompt("More")], "currentlySelected": 0},
        ],
    }  # fmt: skip
    path = tmp_path / "1700000000000.conversation.json"
    path.write_text(json.dumps(chat))
    report = move_in(library, [path], ImportReport())
    whole = library.whole(report.imported[0])
    assert tree(whole) == [["Hi", ["One", ["More"]], ["Two"]]]
    assert shown(whole) == ["Hi", "One", "More"]
    assert [one.thinking for one in whole.messages if one.content == "Two"] == ["hm"]
    assert (whole.summary.created, whole.summary.system_prompt, whole.messages[1].model) == (1.7e9, "Be kind.", "qwen")


# ---------------------------------------------------------------- Jan


def test_jan_s_threads_come_whole(moved):
    def line(id, role, text, **facts):
        content = [{"type": "text", "text": {"value": text, "annotations": []}}, *facts.pop("parts", ())]
        return json.dumps({"id": id, "role": role, "content": content, "created_at": 1_700_000_000_123} | facts)

    thread = {"id": "j", "title": "A thread", "created": 1_700_000_000.0, "updated": 1_700_000_005.0,
              "assistants": [{"model": {"id": "gemma"}, "instructions": "Help."}]}  # fmt: skip
    seen = {"type": "image_url", "image_url": {"url": PIXELS}}
    lines = "\n".join((line("1", "user", "Look", parts=[seen]), line("2", "assistant", "<think>hm</think>\n\nRed")))
    (whole,), _ = moved({"threads/j/thread.json": thread, "threads/j/messages.jsonl": lines})
    assert tree(whole) == [["Look", ["Red"]]]
    assert (whole.messages[1].thinking, whole.messages[1].model, whole.messages[1].created) == (
        "hm", "gemma", 1_700_000_000.123,
    )  # fmt: skip
    assert (whole.summary.system_prompt, len(whole.messages[0].pictures)) == ("Help.", 1)


def test_a_thread_without_content_is_counted_as_empty(moved):
    assert moved({"threads/j/thread.json": ""})[1].empty == 1


# ---------------------------------------------------------------- files


def test_a_deep_chat_needs_no_deep_stack(moved):
    entries = [said("0", "root", "user", "0")]
    entries += [said(str(n), str(n - 1), ("user", "assistant")[n % 2], str(n)) for n in range(1, 3000)]
    (whole,), _ = moved({"conversations.json": [chatgpt(*entries, current="2999")]})
    assert len(shown(whole)) == 3000


def test_nodes_of_one_side_in_a_row_are_one_message_in_each_branch(moved):
    chat = chatgpt(
        said("a0", "root", "assistant", "Welcome"),
        said("u1", "a0", "user", "One"),
        said("u2", "u1", "user", "two"),
        said("a1", "u1", "assistant", "after one"),
        said("a2", "u2", "assistant", "after two"),
        current="a2",
    )
    (whole,), _ = moved({"conversations.json": [chat]})
    assert tree(whole) == [["", ["Welcome", ["One\n\ntwo", ["after two"]], ["One", ["after one"]]]]]
    assert shown(whole) == ["", "Welcome", "One\n\ntwo", "after two"]


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"{", "no JSON"), (b"[]", "known program"), (b"[{}]", "known program"), (b"PK\x03\x04", "JSON"), (b"", "known")],
)
def test_a_file_without_chats_is_refused_in_one_sentence(library, tmp_path, content, said):
    path = tmp_path / "conversations.json"
    path.write_bytes(content)
    with pytest.raises(LibraryError, match=said):
        move_in(library, [path], ImportReport())


def test_what_was_taken_back_is_imported_again(library, tmp_path):
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([chatgpt(said("u", "root", "user", "Hi"), current="u")]))
    library.delete(*move_in(library, [path], ImportReport()).imported)
    assert len(move_in(library, [path], ImportReport()).imported) == 1
