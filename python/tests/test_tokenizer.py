"""Token ids, the bridge from one prompt to the next, and labels.

In: ranks that the tests make; Kimi's own and the recorded prompts where `KIMI_XTML_DATA` has them.
"""

import base64
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kimi_xtml import LABELS, BridgeError, ChatStream, EncodeError, Tokenizer, Turn, encode, labels

OPEN, CLOSE, SEP, END_OF_MSG = 163_587, 163_588, 163_589, 163_586
DATA = os.environ.get("KIMI_XTML_DATA")
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "Hi"}]}


def ranks(*more: bytes) -> bytes:
    tokens = [bytes([byte]) for byte in range(256)] + list(more)
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("ranks") / "tiktoken.model"
    path.write_bytes(ranks(b"ab", b"abc", "é".encode()))
    return Tokenizer(path)


def test_texts_and_back(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode("abcab é") == [257, 256, 32, 258]
    assert tokenizer.count("abcab é") == 4
    assert tokenizer.decode([257, 32, 258, SEP]) == "abc é<|sep|>".encode()
    assert tokenizer.token(257) == b"abc"
    assert tokenizer.token(SEP) == b"<|sep|>"
    assert tokenizer.token(300) is None
    assert tokenizer.texts([0xE2, 0x82, 0xAC, 256]) == ["", "", "€", "ab"]
    assert tokenizer.encode("\ud83d") == tokenizer.encode("\ufffd")
    assert repr(tokenizer) == "<kimi_xtml.Tokenizer of 259 tokens>"


def test_control_tokens(tokenizer: Tokenizer) -> None:
    assert SEP not in tokenizer.encode("<|sep|>")
    assert tokenizer.encode_control("ab<|sep|>c") == [256, SEP, 99]
    prompt = encode({"messages": [{"role": "user", "content": "<|sep|>"}], "thinking": False})
    ids = tokenizer.encode(prompt)
    assert ids[0] == OPEN
    assert ids.count(SEP) == 4
    assert tokenizer.count(prompt) == len(ids)
    assert tokenizer.decode(ids).decode() == prompt.text


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Tokenizer(tmp_path / "nowhere")
    path = tmp_path / "ranks"
    path.write_bytes(b"YQ== 0\nno rank\n")
    with pytest.raises(ValueError, match="line 2: a token in base64, a blank and its rank are expected"):
        Tokenizer(str(path))
    path.write_bytes(ranks()[:100])
    with pytest.raises(ValueError, match=r"line \d+|no token for the byte"):
        Tokenizer(path)


def test_what_is_no_argument(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match="300 is the id of no token"):
        tokenizer.decode([300])
    with pytest.raises(TypeError, match="expected str or Prompt, got int"):
        tokenizer.encode(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="bytes are no token ids"):
        tokenizer.decode(b"ab")
    with pytest.raises(ValueError, match="2 ids have no text"):
        labels(["a"], [1, 2, 3])
    with pytest.raises(ValueError, match="more texts than ids"):
        labels(["a", "b"], [1])
    with pytest.raises(TypeError, match="not a str"):
        labels("ab", [1, 2])


def named(of: bytes) -> list[str]:
    return [LABELS[label] for label in of]


def test_labels() -> None:
    tokens = [("hm", 1), ("", CLOSE), ("think", 2), ("", SEP), ("", OPEN), ("tools", 3), ("", SEP), ("", OPEN)]
    tokens += [("call", 4), (" tool", 5), ('="', 6), ("ls", 7), ('"', 8), ("", SEP)]
    tokens += [("", OPEN), ('argument key="k"', 9), ("", SEP), ("v", 10), ("", CLOSE)]
    texts, ids = zip(*tokens, strict=True)
    expected = ["reasoning"] + ["markup"] * 10 + ["call-name"] + ["markup"] * 5 + ["argument", "dropped"]
    assert named(labels(texts, ids, tools=["ls"], opened="think")) == expected
    withheld = named(labels(texts, ids, opened="think"))
    assert withheld[4:] == ["withheld"] * 15


def test_labels_of_a_generation(tokenizer: Tokenizer) -> None:
    ids = [*tokenizer.encode("ab"), CLOSE, *tokenizer.encode("response"), SEP]
    assert named(tokenizer.labels(ids, opened="response")) == ["content"] + ["markup"] * 10
    prompt = encode(HELLO)
    of_prompt = tokenizer.prompt_labels(prompt)
    assert len(of_prompt) == tokenizer.count(prompt)
    assert set(of_prompt) == {LABELS.index("prompt")}
    # A buffer that arrays take as it is.
    assert memoryview(of_prompt).format == "B"


def gone_on(*messages: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {**HELLO, "messages": HELLO["messages"] + list(messages), **members}


def test_the_bridge(tokenizer: Tokenizer) -> None:
    turn = Turn(tokenizer, HELLO)
    assert turn.ids == tokenizer.encode(encode(HELLO))
    assert (turn.opened, turn.unbilled, turn.generated) == ("think", 3, [])
    generated = tokenizer.encode("hm")
    request = gone_on(
        {"role": "assistant", "reasoning_content": "hm", "content": ""}, {"role": "user", "content": "And?"}
    )
    following = turn.next(generated, request)
    seen = turn.ids + generated
    assert following.ids[: len(seen)] == seen
    assert following.generated == [(len(turn), len(seen))]
    assert named(following.labels[len(turn) : len(seen)]) == ["reasoning"] * 2
    assert len(following.labels) == len(following)
    # The encoder's own words: here the whole prompt.
    assert following.ids == tokenizer.encode(encode(request))
    assert repr(following) == f"<kimi_xtml.Turn of {len(following)} ids, 1 generated>"


def test_a_call_that_was_cut(tokenizer: Tokenizer) -> None:
    tools = [{"type": "function", "function": {"name": "ls"}}]
    turn = Turn(tokenizer, {**HELLO, "tools": tools, "thinking": False})
    generated = tokenizer.encode_control(
        '<|close|>response<|sep|><|open|>tools<|sep|><|open|>call index="1" tool="ls"<|sep|><|open|>argument key="a'
    )
    chat = ChatStream(tools=tools, opened="response")
    for token in zip(tokenizer.texts(generated), generated, strict=True):
        chat.push_token(*token)
    chat.finish("length")
    message = chat.message
    assert message is not None
    request = gone_on(
        {**message}, {"role": "user", "content": "Go on."}, tools=tools, thinking=False, tool_choice="required"
    )
    following = turn.next(generated, request)
    added = tokenizer.decode(following.ids[len(turn) + len(generated) :]).decode()
    assert added.startswith(
        '" type="string"<|sep|><|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
        '<|close|>message<|sep|><|end_of_msg|><|open|>message role="user"<|sep|>Go on.'
    )


@pytest.mark.parametrize(
    ("request_", "reason", "message"),
    [
        (gone_on({"role": "assistant", "content": "no"}), "edited", 1),
        (gone_on({"role": "assistant", "content": "ab"}, thinking=True), "thinking", None),
        (gone_on({"role": "assistant", "content": "ab"}, tools=[{"name": "f"}]), "tools", None),
        (gone_on({"role": "user", "content": "ab"}), "no-answer", 1),
        (gone_on({"role": "assistant", "content": "ab", "partial": True}), "continued", 1),
        (gone_on(), "no-answer", 1),
    ],
)
def test_no_bridge(tokenizer: Tokenizer, request_: dict[str, Any], reason: str, message: int | None) -> None:
    turn = Turn(tokenizer, {**HELLO, "thinking": False})
    with pytest.raises(BridgeError) as caught:
        turn.next(tokenizer.encode("ab"), {"thinking": False, **request_})
    assert (caught.value.reason, caught.value.message) == (reason, message)


def test_reasoning_may_be_forgiven(tokenizer: Tokenizer) -> None:
    answer = gone_on({"role": "assistant", "content": ""})
    with pytest.raises(BridgeError, match=r"messages\[1\]: is not what it was"):
        Turn(tokenizer, HELLO).next(tokenizer.encode("hm"), answer)
    assert Turn(tokenizer, HELLO, forgive_missing_reasoning=True).next(tokenizer.encode("hm"), answer).generated


def test_requests_without_a_prompt(tokenizer: Tokenizer) -> None:
    with pytest.raises(EncodeError, match="messages: "):
        Turn(tokenizer, {})
    with pytest.raises(EncodeError) as caught:
        Turn(tokenizer, HELLO).next([], gone_on({"role": "assistant"}, {"role": "boss"}))
    assert caught.value.place == "messages[2].role"


def test_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tiktoken.model").write_bytes(ranks(b"Yes"))
    readme = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^```py\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(code, {})
    assert capsys.readouterr().out == "['content', 'content']\n"


def test_threads_share_one(tokenizer: Tokenizer) -> None:
    text = "abc ab é " * 20_000
    expected = tokenizer.encode(text)
    given: list[list[int]] = []
    threads = [threading.Thread(target=lambda: given.append(tokenizer.encode(text))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given == [expected] * 8


def recorded() -> Iterator[dict[str, Any]]:
    for path in sorted(Path(DATA or "", "cases/render").glob("render*.jsonl")):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if "ids" in record:
                yield {**record, "partial_mode": path.stem == "render_partial"}


@pytest.mark.skipif(DATA is None, reason="KIMI_XTML_DATA names no folder with Kimi's ranks")
def test_recorded_prompts() -> None:
    tokenizer = Tokenizer(Path(DATA or "", "data/kimi/tiktoken.model"))
    checked = 0
    for record in recorded():
        prompt = encode(record["request"], partial_mode=record["partial_mode"])
        assert tokenizer.encode(prompt) == record["ids"], record["id"]
        assert len(record["ids"]) - prompt.unbilled == record["billed"], record["id"]
        checked += 1
    assert checked > 200
