"""A vocabulary small enough to walk at random: bytes, words of the format, control tokens.

In: nothing. Out: the tokens' bytes by number, and what each is to the parser. Held: nothing.
"""

from __future__ import annotations

CONTROL = {"[EOS]": 163585, "<|end_of_msg|>": 163586, "<|open|>": 163587, "<|close|>": 163588, "<|sep|>": 163589}
NAMES = ["think", "response", "tools", "call", "argument", "json", "message"]
#: Parts of markers as ordinary tokens, which quote one if they follow each other.
PARTS = ["<|", "|>", "open", "close", "sep", "end_of_msg"]
WORDS = ["tool", "index", "key", "type", '="', '"', "string", "number", "object", "array", "true", "false", "null"]
SPACES = ["  ", "\n\n", "    ", " \t", "é", "漢", "\\u", "\\n", '\\"', "12", "0.5", "name", "value"]

#: Each token's bytes. The last ones are the control tokens.
TOKENS = [bytes([byte]) for byte in range(256)] + [
    text.encode() for text in [*NAMES, *PARTS, *WORDS, *SPACES, *CONTROL] if len(text.encode()) > 1
]
FIRST_CONTROL = len(TOKENS) - len(CONTROL)
EOS, END_OF_MSG, OPEN, CLOSE, SEP = range(FIRST_CONTROL, len(TOKENS))


def is_control(token: int) -> bool:
    """Whether it is a control token."""
    return token >= FIRST_CONTROL


def parser_id(token: int) -> int:
    """The token's id as the parser knows it: a control token by Kimi's id, any other by one that is none."""
    return CONTROL[TOKENS[token].decode()] if is_control(token) else 1_000 + token
