"""Streaming parser for what Moonshot's Kimi K3 generates: reasoning, content and tool calls, with nothing lost.

What comes in: generated text or bytes, cut anywhere, or text with token ids. What goes out: events (`Parser`,
`parse`) or Chat Completions deltas and messages (`ChatStream`). Misuse raises `StateError`; model output never raises.
`encode` is the way back: a request's messages as the prompt. `Tokenizer` gives its ids, `Turn` goes from one prompt to
the next without encoding again what was generated, and `labels` says what each token of a generation is for.

`parse_batch` reads many outputs on all cores, into rows or Arrow columns; `kimi_xtml.rl` verifies rollouts.

`kimi_xtml.vllm` and `kimi_xtml.sglang` put the parser into these engines; they are imported only by who uses them.
"""

from kimi_xtml._kimi_xtml import (
    CODES,
    LABELS,
    ArgumentEnd,
    Arguments,
    ArgumentStart,
    Batch,
    BridgeError,
    CallEnd,
    CallStart,
    ChatStream,
    Content,
    Diagnostic,
    Dropped,
    EncodeError,
    End,
    Markup,
    Parser,
    Prompt,
    Reasoning,
    Start,
    StateError,
    Tokenizer,
    Turn,
    Withheld,
    __version__,
    encode,
    labels,
    opened_channel,
    parse,
    parse_batch,
    parse_tokens,
    render,
    render_pieces,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kimi_xtml.types import Event

__all__ = [
    "CODES",
    "LABELS",
    "ArgumentEnd",
    "ArgumentStart",
    "Arguments",
    "Batch",
    "BridgeError",
    "CallEnd",
    "CallStart",
    "ChatStream",
    "Content",
    "Diagnostic",
    "Dropped",
    "EncodeError",
    "End",
    "Event",
    "Markup",
    "Parser",
    "Prompt",
    "Reasoning",
    "Start",
    "StateError",
    "Tokenizer",
    "Turn",
    "Withheld",
    "__version__",
    "encode",
    "labels",
    "opened_channel",
    "parse",
    "parse_batch",
    "parse_tokens",
    "render",
    "render_pieces",
]


def __getattr__(name: str) -> object:
    """`Event` is for annotations: who reads it loads `typing`, which takes longer than all the rest."""
    if name == "Event":
        from kimi_xtml.types import Event

        return Event
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
