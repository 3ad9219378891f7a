"""The model that serves recorded outputs: tiny, random, with Kimi's vocabulary.

In: a folder; KIMI_XTML_DATA, whose `kimi/tiktoken.model` has the ranks; the corpora. Out, in the folder: a model that
vLLM loads without weights, and `cases.jsonl` (what it shall say, and what must come of it). The tokenizer has no
merges: a word that is a token is one, so that parsers find the ids of `think` and the like, any other becomes a token
a byte. Only prompts are encoded by it; outputs are ids anyway.
"""

import base64
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

import kimi_xtml
from harness import CONTROL, of_engines

VOCABULARY, SPECIAL = 163_840, 163_584
NAMES = {number: text for text, number in CONTROL.items()} | {163_584: "[BOS]"}
TEMPLATE = """\
{%- set said = namespace(text='') -%}
{%- for message in messages -%}
{%- if message.content is string %}{% set said.text = said.text + message.content %}
{%- elif message.content %}{% for part in message.content -%}
{% set said.text = said.text + part.text %}{% endfor %}{% endif -%}
{%- endfor -%}
{{ said.text }}<|open|>{{ 'response' if '-response' in said.text else 'think' }}<|sep|>"""


def byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary."""
    printable = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = iter(range(256, 512))
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def cases(ranks: Path) -> list[dict[str, Any]]:
    """The streams that an engine can give, as token ids.

    Of a stream that was recorded as text, a quoted marker and a real one look alike: left out if its result quotes one.
    """
    tokenizer = kimi_xtml.Tokenizer(str(ranks))
    marker = re.compile("(" + "|".join(map(re.escape, CONTROL)) + ")")

    def encode(text: str) -> list[int]:
        parts = marker.split(text)
        return [number for part in parts for number in ([CONTROL[part]] if part in CONTROL else tokenizer.encode(part))]

    found = []
    for stream in of_engines():
        text = "".join(map(str, stream.chunks))
        if not text or (not stream.ids and marker.search(json.dumps(stream.accepted, ensure_ascii=False))):
            continue
        ids = [number for some in stream.ids for number in some] if stream.ids else encode(text)
        found.append(
            {
                "id": stream.id,
                "ids": ids,
                "recorded_ids": stream.ids is not None,
                "opened": stream.context["initial_channel"],
                "tools": stream.context.get("tools", []),
                "tool_choice": stream.context.get("tool_choice"),
                "reason": stream.reason,
                "accepted": stream.accepted,
            }
        )
    return found


def main(folder: Path) -> None:
    """Writes the folder."""
    data = os.environ.get("KIMI_XTML_DATA")
    ranks = Path(data or "") / "data" / "kimi" / "tiktoken.model"
    if not data or not ranks.exists():
        sys.exit(f"KIMI_XTML_DATA must name a folder with data/kimi/tiktoken.model, the tokenizer's ranks: no {ranks}")
    letters = byte_letters()
    vocabulary: dict[str, int] = {}
    for line in ranks.read_bytes().splitlines():
        token, rank = line.split()
        vocabulary["".join(letters[byte] for byte in base64.b64decode(token))] = int(rank)
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(
        [
            AddedToken(NAMES.get(number, f"<|reserved_token_{number}|>"), special=True, normalized=False)
            for number in range(SPECIAL, VOCABULARY)
        ]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "vocab_size": VOCABULARY,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "max_position_embeddings": 16384,
            "bos_token_id": 163584,
            "eos_token_id": [CONTROL["<|end_of_msg|>"], CONTROL["[EOS]"]],
            "torch_dtype": "bfloat16",
            **sizes,
        },
        "generation_config.json": {"eos_token_id": [CONTROL["<|end_of_msg|>"], CONTROL["[EOS]"]]},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": "[BOS]",
            "eos_token": "<|end_of_msg|>",
            "clean_up_tokenization_spaces": False,
            "chat_template": TEMPLATE,
        },
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=1))
    found = cases(ranks)
    (folder / "cases.jsonl").write_text("".join(json.dumps(case) + "\n" for case in found))
    print(f"{len(found)} cases, {sum(len(case['ids']) for case in found)} tokens")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
