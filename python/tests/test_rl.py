"""Verdicts, messages in pieces and ids, buffers, and the rollout of examples/."""

import base64
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from kimi_xtml import LABELS, Tokenizer, Turn, parse_tokens, render, render_pieces
from kimi_xtml.rl import verify

CALL = '<|open|>tools<|sep|><|open|>call tool="add" index="1"<|sep|>{}<|close|>call<|sep|><|close|>tools<|sep|>'
ARGUMENT = '<|open|>argument key="a" type="number"<|sep|>{}<|close|>argument<|sep|>'
END = "<|close|>message<|sep|><|end_of_msg|>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    path = tmp_path_factory.mktemp("ranks") / "tiktoken.model"
    path.write_bytes(b"".join(base64.b64encode(bytes([byte])) + b" %d\n" % byte for byte in range(256)))
    return Tokenizer(path)


def verdict(text: str, **options: Any) -> Any:
    (verdict,) = verify([text], tools=["add"], opened="think", call_ids=0, **options)
    return verdict


def test_a_clean_message() -> None:
    told = verdict("Hm.<|close|>think<|sep|>" + CALL.format(ARGUMENT.format(2)) + END)
    assert (told.reward, told.faults, told.finish_reason) == (1.0, {}, "tool_calls")
    assert told.message == {
        "role": "assistant",
        "content": "",
        "reasoning_content": "Hm.",
        "tool_calls": [{"id": "add_0", "type": "function", "function": {"name": "add", "arguments": {"a": 2}}}],
    }


def test_faults_cost() -> None:
    cut = verdict("Hm.<|close|>think<|sep|>" + CALL.format(ARGUMENT.format(2))[:-60])
    assert cut.faults["incomplete-call"] == 1
    assert cut.tool_calls[0].arguments is None
    assert "tool_calls" not in cut.message
    assert cut.reward == max(0, 1 - 0.25 * len(cut.faults)) < 1
    assert verdict("Hm", penalties=dict.fromkeys(verdict("Hm").faults, 0.0)).reward == 1.0
    assert verdict("Hm", penalties=dict.fromkeys(verdict("Hm").faults, 5.0)).reward == 0.0


def test_a_message_in_pieces_and_ids(tokenizer: Tokenizer) -> None:
    message = {"role": "assistant", "content": "a <|sep|>", "reasoning_content": ""}
    pieces = render_pieces(message, opened="response")
    assert "".join(text for text, _ in pieces) == render(message, opened="response")
    assert ("a <|sep|>", False) in pieces
    assert ("<|sep|>", True) in pieces
    ids = tokenizer.render(message, opened="response")
    assert tokenizer.decode(ids).decode() == render(message, opened="response")
    assert tokenizer.parse(ids, opened="response") == parse_tokens(tokenizer.texts(ids), ids, opened="response")
    (told,) = verify([ids], tokenizer=tokenizer, opened="response")
    assert (told.content, told.reward) == ("a <|sep|>", 1.0)
    with pytest.raises(ValueError, match=r"outputs\[1\]: 99999"):
        list(verify([ids, [99_999]], tokenizer=tokenizer))
    with pytest.raises(ValueError, match='message has the role "user"'):
        render({"role": "user", "content": "a"})
    with pytest.raises(TypeError, match="tool_calls is a list"):
        render({"tool_calls": {"function": {"name": "a"}}})


def test_buffers(tokenizer: Tokenizer) -> None:
    turn = Turn(tokenizer, {"messages": [{"role": "user", "content": "Hi"}]})
    assert turn.ids_buffer.tolist() == turn.ids
    assert len(turn.labels) == len(turn)
    numpy = pytest.importorskip("numpy")
    ids = numpy.asarray(turn.ids_buffer)
    assert (ids.dtype, ids.shape) == (numpy.uint32, (len(turn),))
    assert numpy.frombuffer(turn.labels, "u1").max() < len(LABELS)
    assert tokenizer.decode(ids) == tokenizer.decode(turn.ids)
    assert tokenizer.decode(turn.ids_buffer) == tokenizer.decode(turn.ids)
    with pytest.raises(TypeError, match="memoryview are no token ids"):
        tokenizer.decode(memoryview(b"ab"))


def test_the_rollout(tokenizer: Tokenizer) -> None:
    path = Path(__file__).parents[1] / "examples" / "rollout.py"
    spec = importlib.util.spec_from_file_location("rollout", path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    sys.modules["rollout"] = example
    spec.loader.exec_module(example)
    ids, mask, rewards = example.rollout(tokenizer, example.scripted(tokenizer), "What is 2 + 3 + 4?")
    assert rewards == [1.0, 1.0, 1.0]
    assert len(ids) == len(mask)
    generated = tokenizer.decode([token for token, by_policy in zip(ids, mask, strict=True) if by_policy]).decode()
    assert generated.count('call tool="add"') == 2
    assert "It is <|sep|> 9." in generated
    assert "Thank you." not in generated
