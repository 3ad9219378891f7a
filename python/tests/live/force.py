"""A logits processor for vLLM that makes a model say what was recorded.

In: the folder that `model.py` made, named by KIMI_XTML_LIVE; prompts that name a case, `case-17-`. Out: logits that
leave only the case's next token; after the last one, the token that ends a message. Held: the cases, and the requests
of the batch.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from vllm.v1.sample.logits_processor import BatchUpdate, LogitsProcessor, MoveDirectionality

END = 163586


class Forced(LogitsProcessor):  # type: ignore[misc]
    """Says the recorded tokens of each request's case."""

    def __init__(self, vllm_config: Any, device: torch.device, is_pin_memory: bool) -> None:
        folder = Path(os.environ["KIMI_XTML_LIVE"])
        self._cases = [json.loads(line)["ids"] for line in (folder / "cases.jsonl").open(encoding="utf-8")]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._batch: dict[int, tuple[list[int], list[int]]] = {}

    def is_argmax_invariant(self) -> bool:
        """Never: it decides."""
        return False

    def update_state(self, batch_update: BatchUpdate | None) -> None:
        """Follows the requests through the batch."""
        if batch_update is None:
            return
        for row in batch_update.removed:
            self._batch.pop(row, None)
        for row, _, prompt, said in batch_update.added:
            self._batch.pop(row, None)
            if named := re.findall(r"case-(\d+)-", self._tokenizer.decode(prompt or [])):
                self._batch[row] = (self._cases[int(named[-1])], said)
        for here, there, way in batch_update.moved:
            moved, swapped = self._batch.pop(here, None), self._batch.pop(there, None)
            if moved:
                self._batch[there] = moved
            if swapped and way is MoveDirectionality.SWAP:
                self._batch[here] = swapped

    def apply(self, logits: torch.Tensor) -> torch.Tensor:
        """Leaves one token a row."""
        for row, (ids, said) in self._batch.items():
            wanted = ids[len(said)] if len(said) < len(ids) else END
            kept = logits[row, wanted].clone()
            logits[row] = -torch.inf
            logits[row, wanted] = kept
        return logits
