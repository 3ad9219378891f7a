"""The programs of the pages in docs/data, and what they are given.

In: a page's name. Out: its code, and outputs: half a kilobyte and twelve events each, no two alike.
"""

import re
from pathlib import Path

PAGES = Path(__file__).parents[2] / "docs" / "data"


def code(page: str) -> str:
    """The program of a page."""
    (program,) = re.findall(r"```python\n(.*?)```", (PAGES / f"{page}.md").read_text(), re.DOTALL)
    return str(program)


def outputs(count: int) -> list[str]:
    """Outputs after a prompt that left `think` open, each with a call of `ls`."""
    return [
        f"Number {number}. " + "So it is, and so it was. " * 4 + "<|close|>think<|sep|><|open|>response<|sep|>"
        f"Looking at {number}.<|close|>response<|sep|><|open|>tools<|sep|>"
        '<|open|>call tool="ls" index="1"<|sep|><|open|>argument key="path" type="string"<|sep|>'
        f"/tmp/{number}<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|><|end_of_msg|>"
        for number in range(count)
    ]
