"""The shapes of what the parser gives: for annotations.

Every dict here is a plain dict at run time, ready for `json.dumps`.
"""

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias, TypedDict

from kimi_xtml._kimi_xtml import (
    ArgumentEnd,
    Arguments,
    ArgumentStart,
    CallEnd,
    CallStart,
    Content,
    Diagnostic,
    Dropped,
    End,
    Markup,
    Reasoning,
    Start,
    Withheld,
)

Event: TypeAlias = (
    Start
    | Reasoning
    | Content
    | CallStart
    | ArgumentStart
    | Arguments
    | ArgumentEnd
    | CallEnd
    | End
    | Withheld
    | Markup
    | Dropped
    | Diagnostic
)
"""What `Parser` and `parse` give."""

Channel: TypeAlias = Literal["think", "response", "tools"]
"""A channel of the message."""

ValueKind: TypeAlias = Literal["string", "number", "boolean", "null", "object", "array", "unknown", "block"]
"""What an argument is said to be; `block` is a `json` block, the whole arguments."""

Label: TypeAlias = Literal["prompt", "markup", "reasoning", "content", "call-name", "argument", "withheld", "dropped"]
"""What a part of a sequence is for; what the model generates has any but `prompt`."""


class Counts(TypedDict):
    """How much of the input went where, in bytes or in tokens; `input` is the sum of the others."""

    input: int
    reasoning: int
    content: int
    arguments: int
    markup: int
    withheld: int
    dropped: int


class Noted(TypedDict):
    """How often a deviation was met; `first` is the byte offset of the first."""

    code: str
    count: int
    first: int


class Report(TypedDict):
    """What a parser did so far."""

    bytes: Counts
    tokens: Counts | None
    examined: int
    diagnostics: list[Noted]


class FunctionDelta(TypedDict, total=False):
    """A call's name (once, whole) and more of its arguments."""

    name: str
    arguments: str


class ToolCallDelta(TypedDict, total=False):
    """The first delta of a call has all members, later ones `index` and `function`."""

    index: int
    id: str
    type: Literal["function"]
    function: FunctionDelta


class Delta(TypedDict, total=False):
    """The `delta` of a Chat Completions choice: one of these members."""

    reasoning_content: str
    content: str
    tool_calls: list[ToolCallDelta]


class Function(TypedDict):
    """What a call calls; the arguments are JSON as text."""

    name: str
    arguments: str


class _ToolCall(TypedDict):
    id: str
    type: Literal["function"]
    function: Function


class ToolCall(_ToolCall, total=False):
    """A call of a message. `complete` is there, and False, if the call must not be run."""

    complete: Literal[False]


class _Message(TypedDict):
    role: Literal["assistant"]
    content: str


class Message(_Message, total=False):
    """The `message` of a Chat Completions choice; what there is none of is absent."""

    reasoning_content: str
    tool_calls: list[ToolCall]


class RowCall(TypedDict):
    """A call of a row; one that is not complete must not be run."""

    id: str
    name: str
    arguments: str
    complete: bool


class Row(TypedDict):
    """What an output says. `reasoning` is None if there was no think channel, `tokens` if there were no ids."""

    reasoning: str | None
    content: str
    tool_calls: list[RowCall]
    finish_reason: str
    bytes: Counts
    tokens: Counts | None
    diagnostics: list[Noted]


class IdArray(Protocol):
    """An array of ids, such as one of NumPy's or torch's."""

    def tolist(self) -> list[int]:
        """The ids."""
        ...


Ids: TypeAlias = Sequence[int] | IdArray
"""Token ids."""


class Scalar(Protocol):
    """A value of PyArrow's."""

    def as_py(self) -> object:
        """The same in Python."""
        ...


Output: TypeAlias = str | bytes | bytearray | memoryview | tuple[str | Sequence[str], Ids] | Ids | Scalar
"""An output of a batch: text, or a pair of text and ids; with a tokenizer ids alone."""
