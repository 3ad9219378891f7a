"""The encoder once more, slow and obvious: what the library's must give for any request.

In: a request as Python reads it. Out: pieces, each with whether control tokens are read in it, or an error. It is written
from the rules, on Python's own reading and printing of JSON, and shares nothing with the library.
"""  # noqa: E501

import json
from typing import Any

Piece = tuple[bool, str]

FENCE = "```json\n{}\n```"
EFFORT = (
    "`thinking_effort` guides on how much to think in your thinking channel (not including the response channel), "
    "supported values include `low`, `medium`, `high`, and `max`.\nNow the system is invoked with `thinking_effort={}`."
)
DECLARED = "# Tools\nHere are the available tools, described in JSONSchema.\n\n"
DECLARED_LATER = (
    "## New Tools Available\nThe system dynamically extends the toolset via lazy-loading.\n"
    "You have access to all existing and extended tools.\nHere are the specs for the extended tools.\n\n"
)
CHOICES = {
    "required": "The system is invoked with `tool_choice=required`.\nYou MUST call tools in the next message.",
    "none": "The system is invoked with `tool_choice=none`.\nYou MUST NOT call any tools in the next message.",
}
RAW = (
    "The system is invoked with `response_format={}`.\nYour response must be raw JSON data without markdown code blocks "  # noqa: E501
    "(```json) or any additional formatting."
)
PAD = "<|media_pad|>"


class RefusedError(Exception):
    """The request has no prompt."""


class Pieces(list[Piece]):
    def control(self, text: str) -> None:
        self.append((True, text))

    def plain(self, text: str) -> None:
        if text:
            self.append((False, text))

    def open(self, tag: str, **attributes: object) -> None:
        self.control("<|open|>")
        self.plain(tag)
        for key, value in attributes.items():
            self.plain(f" {key}")
            self.plain('="')
            self.plain(str(value).replace("&", "&amp;").replace('"', "&quot;"))
            self.plain('"')
        self.control("<|sep|>")

    def close(self, tag: str) -> None:
        self.control("<|close|>")
        self.plain(tag)
        self.control("<|sep|>")

    def end(self) -> None:
        self.close("message")
        self.control("<|end_of_msg|>")

    def notice(self, kind: str, body: str) -> None:
        self.open("message", role="system", type=kind)
        self.plain(body)
        self.end()

    def content(self, content: object) -> None:
        if isinstance(content, str):
            self.plain(content)
        elif isinstance(content, list):
            for part in content:
                if not isinstance(part, dict) or "type" not in part:
                    raise RefusedError("a part")
                if part["type"] in ("image", "image_url"):
                    self.control(PAD)
                elif isinstance(part.get("text"), str):
                    self.plain(part["text"])
                else:
                    raise RefusedError("a part's text")
        elif content is not None:
            raise RefusedError("content")


def as_text(text: str) -> str:
    """The text as it is encoded to ids: halves of characters are U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def fenced(value: object) -> str:
    return FENCE.format(json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")))


def skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at


def members(text: str) -> list[tuple[str, Any, str]]:
    """Key, value and the value's source, for each member; ValueError if the text begins with no object."""
    decoder = json.JSONDecoder(strict=False)
    found: list[tuple[str, Any, str]] = []
    at = skip(text, 0)
    if text[at : at + 1] != "{":
        raise ValueError
    at = skip(text, at + 1)
    if text[at : at + 1] == "}":
        return found
    while True:
        key, at = decoder.raw_decode(text, at)
        if not isinstance(key, str):
            raise ValueError
        at = skip(text, at)
        if text[at : at + 1] != ":":
            raise ValueError
        start = skip(text, at + 1)
        value, at = decoder.raw_decode(text, start)
        found.append((key, value, text[start:at]))
        at = skip(text, at)
        if text[at : at + 1] == "}":
            return found
        if text[at : at + 1] != ",":
            raise ValueError
        at = skip(text, at + 1)


def kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    names: dict[type[object], str] = {str: "string", dict: "object", list: "array"}
    return names[type(value)]


def arguments(pieces: Pieces, given: object) -> None:
    if given is None or given == "":
        return
    if isinstance(given, str):
        try:
            pairs = members(given)
        except ValueError:
            pieces.open("json", type="object")
            pieces.plain(given)
            pieces.close("json")
            return
    elif isinstance(given, dict):
        pairs = [(key, value, json.dumps(value, ensure_ascii=False)) for key, value in given.items()]
    else:
        raise RefusedError("arguments")
    for key, value, source in pairs:
        pieces.open("argument", key=key, type=kind(value))
        pieces.plain(value if isinstance(value, str) else source)
        pieces.close("argument")


def name_of(name: object) -> object:
    if isinstance(name, (dict, list)):
        raise RefusedError("a name")
    return name


def function(call: Any) -> dict[str, Any]:
    of = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(of, dict) or of.get("name") is None:
        raise RefusedError("a call")
    return of


def header(message: dict[str, Any]) -> dict[str, object]:
    return {"role": message["role"], **({"name": name_of(message["name"])} if message.get("name") else {})}


def assistant(pieces: Pieces, message: dict[str, Any], thinking: bool) -> None:
    pieces.open("message", **header(message))
    if thinking:
        reasoning = message.get("reasoning_content") or message.get("reasoning") or ""
        if not isinstance(reasoning, str):
            raise RefusedError("reasoning")
        pieces.open("think")
        pieces.plain(reasoning)
        pieces.close("think")
    pieces.open("response")
    pieces.content(message.get("content"))
    pieces.close("response")
    if calls := message.get("tool_calls"):
        pieces.open("tools")
        for index, call in enumerate(calls, 1):
            pieces.open("call", tool=function(call)["name"], index=index)
            arguments(pieces, function(call).get("arguments"))
            pieces.close("call")
        pieces.close("tools")
    pieces.end()


def partial(pieces: Pieces, message: dict[str, Any], thinking: bool) -> None:
    pieces.open("message", **header(message))
    text = Pieces()
    text.content(message.get("content"))
    reasoning = message.get("reasoning_content") or message.get("reasoning") if thinking else None
    if reasoning:
        pieces.open("think")
        pieces.plain(reasoning)
        if not text:
            return
        pieces.close("think")
    pieces.open("response")
    pieces.extend(text)


def identity(message: dict[str, Any], *keys: str) -> str | None:
    of = next((message[key] for key in keys if key in message), None)
    return None if of is None else str(of)


def results(run: list[dict[str, Any]], calls: list[Any]) -> list[tuple[dict[str, Any], object]]:
    """Each result of a run, in order, and its tool's name, or none."""
    ids = [identity(call, "id") for call in calls]
    answered = [identity(message, "tool_call_id", "id") for message in run]
    if any(one is None or one not in ids for one in answered):
        return [(message, message["tool"] if "tool" in message else message.get("name")) for message in run]
    order = sorted(range(len(run)), key=lambda at: ids.index(answered[at]))
    return [(run[at], function(calls[ids.index(answered[at])])["name"]) for at in order]


def tools_of(message: dict[str, Any]) -> Any:
    tools = message.get("tools")
    if tools and not isinstance(tools, list):
        raise RefusedError("tools")
    return tools


def continued(messages: list[dict[str, Any]]) -> bool:
    for number, message in enumerate(messages):
        if message.get("partial"):
            is_last = number == len(messages) - 1
            if message["role"] != "assistant" or message.get("tool_calls") or not is_last:
                raise RefusedError("partial")
            return True
    return False


def encode(request: dict[str, Any], *, partial_mode: bool) -> Pieces:
    pieces = Pieces()
    messages = request["messages"]
    thinking = request.get("thinking", True)
    for message in messages:
        if not isinstance(message, dict) or message.get("role") not in ("system", "user", "assistant", "tool"):
            raise RefusedError("a message")
        if not isinstance(message.get("partial"), (bool, type(None))):
            raise RefusedError("partial, which is no boolean")
    goes_on = partial_mode and continued(messages)
    if tools := tools_of(request):
        pieces.notice("tool-declare", DECLARED + fenced(tools))
    effort = request.get("thinking_effort", "max")
    if thinking and effort is not None:
        if effort not in ("low", "high", "max"):
            raise RefusedError("effort")
        pieces.notice("thinking-effort", EFFORT.format(effort))
    calls: list[Any] = []
    count = at = 0
    closed = messages[:-1] if goes_on else messages
    while at < len(closed):
        message = closed[at]
        if message["role"] == "tool":
            run = []
            while at < len(closed) and closed[at]["role"] == "tool":
                run.append(closed[at])
                at += 1
            for result, name in results(run, calls):
                count += 1
                if name is None and count <= len(calls):
                    name = function(calls[count - 1])["name"]
                if name is None:
                    raise RefusedError("a result's name")
                pieces.open("message", role="tool", tool=name, index=count)
                pieces.content(result.get("content"))
                pieces.end()
            continue
        at += 1
        if message["role"] == "assistant":
            assistant(pieces, message, thinking)
            calls, count = message.get("tool_calls") or [], 0
        elif message["role"] == "system" and (later := tools_of(message)):
            pieces.notice("tool-declare", DECLARED_LATER + fenced(later))
        else:
            pieces.open("message", **header(message))
            pieces.content(message.get("content"))
            pieces.end()
    choice = request.get("tool_choice")
    if isinstance(choice, str) and choice in CHOICES:
        pieces.notice("tool-choice", CHOICES[choice])
    form = request.get("response_format")
    named = form.get("json_schema") if isinstance(form, dict) else None
    form = form.get("type") if isinstance(form, dict) else form
    if form == "json_object":
        pieces.notice("response-format", RAW.format(form))
    elif form == "json_schema":
        schema = named
        for key in ("json_schema", "schema"):
            if isinstance(named, dict) and key in named:
                schema = named[key]
        note = "\nThe JSON data must match the following schema:\n" + fenced(schema)
        pieces.notice("response-format", RAW.format(form) + note)
    if goes_on:
        partial(pieces, messages[-1], thinking)
    elif request.get("add_generation_prompt", True):
        pieces.open("message", role="assistant")
        pieces.open("think" if thinking else "response")
    spelled = request.get("image_prompts")
    if spelled is not None:
        images = [place for place, (is_control, text) in enumerate(pieces) if is_control and text == PAD]
        if len(images) != len(spelled):
            raise RefusedError("image_prompts")
        for place, text in zip(images, spelled, strict=True):
            pieces[place] = (True, text)
    return pieces
