"""The README's examples run as written and print what it says, and it names every option."""

import contextlib
import inspect
import io
import re
from pathlib import Path

from kimi_xtml import ChatStream, parse_batch

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def printed(code: str) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(code, {})
    return out.getvalue()


def test_the_examples() -> None:
    events, batch, chat = blocks("python")
    assert printed(events) == blocks("text")[0]
    assert printed(batch).startswith("Hm. | 4 | [")
    assert "'content': '42'" in printed(chat)


def test_the_options() -> None:
    named = set(re.findall(r"`(\w+)", README))
    assert set(inspect.signature(ChatStream).parameters) <= named
    assert set(inspect.signature(parse_batch).parameters) <= named
