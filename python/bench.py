"""What a push costs, beside an empty PyO3 call of the same signature in the same run.

In: the installed package, built for release. Out: nanoseconds a call (the best of many short runs) and the ratio to
the empty call. Each case checks its answer before it is measured. `--check` fails if a budget is passed.
"""

import argparse
import platform
import sys
import time
from collections.abc import Callable

import kimi_xtml
from kimi_xtml._kimi_xtml import _Empty

CALLS = 20_000
ROUNDS = 60


def nanoseconds(fresh: Callable[[], Callable[[str], object]], argument: str) -> float:
    """The cost of one call: of the best round, so that other load on the machine counts least."""
    best = float("inf")
    arguments = [argument] * CALLS
    for _ in range(ROUNDS):
        call = fresh()
        start = time.perf_counter_ns()
        for text in arguments:
            call(text)
        best = min(best, (time.perf_counter_ns() - start) / CALLS)
    return best


def loop() -> float:
    """The cost of the loop around a call."""
    best = float("inf")
    arguments = ["abcd"] * CALLS
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for _text in arguments:
            pass
        best = min(best, (time.perf_counter_ns() - start) / CALLS)
    return best


def in_argument(push: Callable[[str], object]) -> Callable[[str], object]:
    """A push that continues the argument of a call."""
    push('<|open|>tools<|sep|><|open|>call tool="ls" index="1"<|sep|><|open|>argument key="a" type="string"<|sep|>')
    return push


def main() -> int:
    """Measures, prints a table, and checks the budgets if asked."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="fail if a cost is above its budget")
    check = options.parse_args().check

    def parser() -> Callable[[str], object]:
        return kimi_xtml.Parser(opened="response").push

    def chat() -> Callable[[str], object]:
        return kimi_xtml.ChatStream(opened="response", keep_message=False).push

    def parser_argument() -> Callable[[str], object]:
        return in_argument(kimi_xtml.Parser(tools=["ls"]).push)

    def chat_argument() -> Callable[[str], object]:
        return in_argument(kimi_xtml.ChatStream(tools=["ls"], keep_message=False).push)

    [content] = kimi_xtml.Parser().push("abcd")
    assert content == kimi_xtml.Content("abcd", (0, 4))
    assert chat()("abcd") == [{"content": "abcd"}]
    assert chat_argument()("abcd") == [{"tool_calls": [{"index": 0, "function": {"arguments": "abcd"}}]}]

    around = loop()
    empty = nanoseconds(lambda: _Empty().push, "abcd") - around
    cases = [
        ("an empty call", empty, None),
        ("Parser.push, 4 bytes, one Content", nanoseconds(parser, "abcd") - around, 200),
        ("Parser.push, 4 bytes, one Arguments", nanoseconds(parser_argument, "abcd") - around, None),
        ("ChatStream.push, 4 bytes, content", nanoseconds(chat, "abcd") - around, 400),
        ("ChatStream.push, 4 bytes, arguments", nanoseconds(chat_argument, "abcd") - around, None),
    ]
    print(f"Python {platform.python_version()}, {platform.machine()}, best of {ROUNDS} rounds of {CALLS:,} calls")
    for name, cost, budget in cases:
        limit = f"   budget {budget} ns" if budget else ""
        print(f"{name:38} {cost:6.0f} ns  {cost / empty:5.1f}x{limit}")
    return int(check and any(budget is not None and cost > budget for _, cost, budget in cases))


if __name__ == "__main__":
    sys.exit(main())
