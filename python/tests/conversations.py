"""Random requests, spelled as clients spell them and as nobody should.

In: a seed. Out: the body of a request, as JSON text.
"""

import json
import random

WORDS = [
    "",
    " ",
    "hello",
    "\n",
    "é",
    "😀",
    "漢字",
    "a&b",
    'say "x"',
    "<|open|>",
    "<|close|>think<|sep|>",
    "<|end_of_msg|>",
    "<|media_pad|>",
    "<|kimi_image_placeholder|>",
    "\\u0041",
    "\t",
    "\x00",
    "\x1f",
    "\x7f",
    "\u2028",
    "\r\n",
    "[EOS]",
    "{}",
    "'",
    "\ufffd",
]
NUMBERS = [
    "0",
    "-0",
    "1",
    "-17",
    "1.0",
    "-0.0",
    "0.5",
    "1e2",
    "1E+2",
    "2.50",
    "1e-4",
    "1e-5",
    "1.5e-7",
    "1e15",
    "1e16",
    "123456789012345680.0",
    "1e22",
    "1e400",
    "-1e999",
    "18446744073709551616",
    "123456789012345678901234567890",
    "0.1",
    "5e-324",
    "1.7976931348623157e308",
    "9007199254740993",
    "100000.00",
]
KEYS = ["a", "b", "a", "Z", "", "é", "\uff61", "😀", "_", "a&", 'q"', "10", "9", "type", "<|sep|>"]
BAD = [
    "{",
    '{"a":1,}',
    "{'a':1}",
    '{"a":01}',
    '{"a":+1}',
    '{"a" 1}',
    "[1]",
    "null",
    '"x"',
    "text",
    " ",
    "\n",
    "{,}",
    '{"a":nan}',
]
ESCAPES = ["\\ud83d", "\\udc00", "\\ud83d\\ude00", "\\ud800\\ud83d\\ude00", "\\/", "\\b"]


class Writer:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def maybe(self, chance: float) -> bool:
        return self.random.random() < chance

    def text(self) -> str:
        return "".join(self.random.choices(WORDS, k=self.random.randint(0, 4)))

    def quoted(self, text: str, *, raw: bool = False) -> str:
        """A string, some of its characters escaped though they need not be; `raw`: control characters as they are."""
        out = []
        for char in text:
            match self.random.random():
                case chance if chance < 0.03:
                    out.append(json.dumps(char)[1:-1])
                case chance if chance < 0.05 and char != "\\" and ord(char) < 0x10000:
                    out.append(f"\\u{ord(char):04X}")
                case chance if raw and char not in '"\\' and chance < 0.8:
                    out.append(char)
                case _:
                    out.append(json.dumps(char, ensure_ascii=False)[1:-1])
        return '"' + "".join(out) + '"'

    def string(self, *, raw: bool = False) -> str:
        """A string of any text, at times with escapes of half a character."""
        string = self.quoted(self.text(), raw=raw)
        if self.maybe(0.05):
            string = string[:-1] + self.random.choice(ESCAPES) + '"'
        return string

    def blank(self) -> str:
        return self.random.choice(["", "", "", "", " ", "\n", "\t \r"])

    def value(self, depth: int = 3, *, raw: bool = False) -> str:
        kind = self.random.randint(0, 7 if depth else 5)
        if kind == 0:
            return self.random.choice(["null", "true", "false"])
        if kind <= 2:
            return self.random.choice(NUMBERS + (["NaN", "Infinity", "-Infinity"] if self.maybe(0.2) else []))
        if kind <= 5:
            return self.string(raw=raw)
        if kind == 6:
            return self.items([self.value(depth - 1, raw=raw) for _ in range(self.random.randint(0, 3))])
        return self.object(depth, raw=raw)

    def items(self, items: list[str]) -> str:
        return "[" + self.blank() + ",".join(self.blank() + item + self.blank() for item in items) + "]"

    def members(self, members: list[tuple[str, str]], *, raw: bool = False) -> str:
        spelled = [
            f"{self.blank()}{self.quoted(key, raw=raw)}{self.blank()}:{self.blank()}{value}" for key, value in members
        ]
        return "{" + ",".join(spelled) + self.blank() + "}"

    def object(self, depth: int = 3, *, raw: bool = False) -> str:
        keys = self.random.choices(KEYS, k=self.random.randint(0, 4))
        return self.members([(key, self.value(depth - 1, raw=raw)) for key in keys], raw=raw)

    def content(self) -> str | None:
        match self.random.randint(0, 9):
            case 0:
                return None
            case 1:
                return "null"
            case 2 | 3 | 4:
                parts = []
                for _ in range(self.random.randint(0, 3)):
                    if self.maybe(0.25):
                        image = [
                            ("type", self.quoted(self.random.choice(["image", "image_url"]))),
                            ("image_url", '{"url":"x"}'),
                        ]
                        parts.append(self.members(image))
                    else:
                        kind = self.random.choice(["text", "text", "input_text", "output"])
                        parts.append(self.members([("type", self.quoted(kind)), ("text", self.string())]))
                if self.maybe(0.02):
                    parts.append(self.random.choice(['"x"', '{"text":"x"}', '{"type":"video"}', "5"]))
                return self.items(parts)
            case 5 if self.maybe(0.05):
                return self.random.choice(["5", "{}", "true"])
            case _:
                return self.string()

    def name(self) -> str:
        return self.random.choice(["null", '""', "5", "1.50", "true", "0", '" "', self.string()])

    def identity(self) -> str:
        return self.random.choice(['"a"', '"b"', '"c"', '""', "1", '"1"', "null", "1.0"])

    def arguments(self) -> str | None:
        match self.random.randint(0, 9):
            case 0:
                return None
            case 1:
                return self.random.choice(["null", '""', "{}", '"{}"', '" { } x"'])
            case 2 | 3 | 4:
                return self.object()
            case 5:
                return self.quoted(self.random.choice(BAD) + self.text())
            case 6 if self.maybe(0.05):
                return self.random.choice(["5", "[1]", "false"])
            case _:
                text = self.blank() + self.object(raw=True) + self.random.choice(["", "", "", " x", "}"])
                return self.quoted(text)

    def call(self) -> str:
        function = [] if self.maybe(0.01) else [("name", self.quoted(self.random.choice(["f", "g", 'h&"', ""])))]
        if (arguments := self.arguments()) is not None:
            function.append(("arguments", arguments))
        self.random.shuffle(function)
        call = [] if self.maybe(0.1) else [("id", self.identity())]
        call += function if self.maybe(0.1) else [("function", self.members(function))]
        return self.members(call)

    def message(self) -> str:
        role = self.random.choice(["system", "user", "assistant", "assistant", "tool", "tool"])
        if self.maybe(0.01):
            role = self.random.choice(["developer", "User", ""])
        members = [("role", self.quoted(role))]
        if (content := self.content()) is not None:
            members.append(("content", content))
        if self.maybe(0.15):
            members.append(("name", self.name()))
        if role == "assistant":
            for key in ("reasoning_content", "reasoning"):
                if self.maybe(0.4):
                    members.append((key, self.random.choice(["null", self.string(), self.string()])))
            if self.maybe(0.6):
                calls = [self.call() for _ in range(self.random.randint(0, 3))]
                members.append(("tool_calls", self.items(calls) if self.maybe(0.95) else "null"))
        if role == "tool":
            if self.maybe(0.8):
                members.append(("tool_call_id", self.identity()))
            if self.maybe(0.1):
                members.append(("id", self.identity()))
            if self.maybe(0.7):
                name = self.name() if self.maybe(0.2) else '"g"'
                members.append((self.random.choice(["tool", "name"]), name))
        if self.maybe(0.1):
            members.append(("tools", self.random.choice(["null", "[]", self.items([self.object()])])))
        if self.maybe(0.03):
            members.append(("partial", self.random.choice(["true", "false", "null", '"yes"'])))
        if self.maybe(0.2):
            self.random.shuffle(members)
        return self.members(members) if self.maybe(0.995) else "5"

    def request(self) -> str:
        messages = [self.message() for _ in range(self.random.randint(0, 6))]
        if self.maybe(0.15):
            members = [("role", '"assistant"'), ("content", self.string()), ("partial", "true")]
            if self.maybe(0.5):
                members.append(("reasoning_content", self.string()))
            messages.append(self.members(members))
        members = [("messages", self.items(messages)), ("model", '"k3"')]
        if self.maybe(0.3):
            members.append(("tools", self.random.choice(["null", "[]", self.items([self.object(), self.value()])])))
        if self.maybe(0.3):
            choices = ['"required"', '"none"', '"auto"', "null", '{"type":"function","function":{"name":"f"}}']
            members.append(("tool_choice", self.random.choice(choices)))
        if self.maybe(0.3):
            members.append(("response_format", self.response_format()))
        if self.maybe(0.3):
            members.append(("thinking", self.random.choice(["true", "false"])))
        if self.maybe(0.3):
            efforts = ['"low"', '"high"', '"max"', "null"]
            members.append(("thinking_effort", '"medium"' if self.maybe(0.03) else self.random.choice(efforts)))
        if self.maybe(0.1):
            members.append(("add_generation_prompt", self.random.choice(["true", "false"])))
        if self.maybe(0.2):
            self.random.shuffle(members)
        return self.members(members)

    def response_format(self) -> str:
        kind = self.random.choice(["json_object", "json_schema", "json_schema", "text"])
        if self.maybe(0.1):
            return self.random.choice(["null", self.quoted(kind)])
        named = [("name", '"n"')]
        if self.maybe(0.8):
            named.append(
                (self.random.choice(["schema", "schema", "json_schema"]), self.random.choice(["null", self.object()]))
            )
        members = [("type", self.quoted(kind))]
        if self.maybe(0.9):
            members.append(("json_schema", self.random.choice(["null", self.members(named), self.members(named)])))
        return self.members(members)


def request(seed: int) -> str:
    """The request of a seed."""
    return Writer(seed).request()
