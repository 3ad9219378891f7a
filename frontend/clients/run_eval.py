"""The steps of the script `eval`.

In: the data set, a scratch folder, the programs. Out: files in the folder, and the results; a result that is not what it
must be ends the run. Nothing is held.
"""
import json
import os
import pathlib
import subprocess
import sys

from served import served

TOOL = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Works out an expression.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    },
}
# The stock gsm8k task's metric and filters; the data set is a local file, zero shots.
TASK = {
    "dataset_path": "json",
    "output_type": "generate_until",
    "test_split": "test",
    "fewshot_split": "test",
    "num_fewshot": 0,
    "doc_to_text": "Question: {{question}}\nAnswer:",
    "doc_to_target": "{{answer}}",
    "metric_list": [
        {
            "metric": "exact_match",
            "aggregation": "mean",
            "higher_is_better": True,
            "ignore_case": True,
            "ignore_punctuation": False,
            "regexes_to_ignore": [",", "\\$", "(?s).*#### ", "\\.$"],
        }
    ],
    "filter_list": [
        {
            "name": "strict-match",
            "filter": [{"function": "regex", "regex_pattern": "#### (\\-?[0-9\\.\\,]+)"}, {"function": "take_first"}],
        }
    ],
    "metadata": {"version": 3.0},
}
GENERATION = {"until": ["Question:", "</s>", "<|im_end|>"], "do_sample": False, "temperature": 0.0, "max_gen_toks": 1024}


def items(data):
    return [json.loads(line) for line in pathlib.Path(data).read_text(encoding="utf-8").splitlines()]


def prompt(item):
    return f"Question: {item['question']}\nAnswer:"


def records(data, work):
    """A recorded stream for each question: the worked solution as reasoning, then the right answer, in small chunks."""
    lines = []
    for number, item in enumerate(items(data)):
        stream = (
            f"{item['answer']}<|close|>think<|sep|><|open|>response<|sep|>{item['answer']}"
            "<|close|>response<|sep|><|close|>message<|sep|><|end_of_msg|>"
        )
        chunks = [stream[at : at + 5] for at in range(0, len(stream), 5)]
        context = {"initial_channel": "think", "tools": [], "engine_finish_reason": "stop"}
        lines.append(json.dumps({"id": f"G{number}", "user": prompt(item), "context": context, "chunks": chunks}))
    (pathlib.Path(work) / "records.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def tokenizer(data, work):
    """A small tokenizer, trained on the questions: aiperf's own needs the network."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=8000, special_tokens=["<eos>"], initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator([item["question"] + "\n" + item["answer"] for item in items(data)], trainer)
    folder = pathlib.Path(work) / "tokenizer"
    folder.mkdir()
    made.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<eos>", "pad_token": "<eos>", "model_max_length": 1000000}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


def lm_eval(data, work, server, program):
    work = pathlib.Path(work)
    offline = {name: "1" for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "HF_EVALUATE_OFFLINE", "TRANSFORMERS_OFFLINE")}
    environment = {**os.environ, **offline, "HF_HOME": str(work / "hf"), "OPENAI_API_KEY": "x"}
    tasks = {"gsm8k_local": GENERATION, "gsm8k_local_tools": {**GENERATION, "tools": [TOOL]}}
    for name, generation in tasks.items():
        task = {**TASK, "task": name, "dataset_kwargs": {"data_files": {"test": data}}, "generation_kwargs": generation}
        (work / "tasks").mkdir(exist_ok=True)
        (work / "tasks" / f"{name}.yaml").write_text(json.dumps(task))  # JSON is YAML
    with served(server, "--replay", str(work / "records.jsonl")) as url:
        for name in tasks:
            model = f"model=kimi-k3,base_url={url}/v1/chat/completions,num_concurrent=16,max_retries=3,tokenized_requests=False"
            command = [program, "run", "--model", "local-chat-completions", "--tasks", name, "--include_path", work / "tasks"]
            command += ["--model_args", model, "--apply_chat_template", "--num_fewshot", "0"]
            command += ["--log_samples", "--output_path", work / name]
            log = work / f"{name}.log"
            with log.open("w") as out:
                if subprocess.run(command, env=environment, stdout=out, stderr=out).returncode:
                    sys.exit(log.read_text()[-5000:])
            result = json.loads(next((work / name).glob("*/results_*.json")).read_text())
            score = result["results"][name]["exact_match,strict-match"]
            asked = result["n-samples"][name]["effective"]
            print(f"lm-eval {name}: strict match {score} on {asked}")
            assert (score, asked) == (1.0, len(items(data)))


def aiperf(data, work, server, program, requests):
    work = pathlib.Path(work)
    prompts = [json.dumps({"text": prompt(item)}) for item in items(data)]
    (work / "prompts.jsonl").write_text("\n".join(prompts) + "\n")
    environment = {**os.environ, "NO_COLOR": "1", "HF_HOME": str(work / "hf-aiperf")}
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):  # set, they refuse a tokenizer that is a folder
        environment.pop(name, None)
    out = work / "aiperf"
    with served(server, "--replay", str(work / "records.jsonl")) as url:
        command = [program, "profile", "-m", "kimi-k3", "-u", url, "--endpoint-type", "chat", "--streaming"]
        command += ["--tokenizer", work / "tokenizer", "--input-file", work / "prompts.jsonl"]
        command += ["--custom-dataset-type", "single_turn", "--request-count", requests, "--concurrency", "16"]
        command += ["--ui", "none", "--output-artifact-dir", out]
        log = work / "aiperf.log"
        with log.open("w") as told:
            if subprocess.run(command, env=environment, stdout=told, stderr=told).returncode:
                sys.exit(log.read_text()[-5000:])
    result = json.loads((out / "profile_export_aiperf.json").read_text())
    average = lambda key: (result.get(key) or {}).get("avg")
    valid, invalid = average("request_count"), average("error_request_count") or 0
    print(f"aiperf: {valid:.0f} valid, {invalid:.0f} invalid, time to first token {average('time_to_first_token'):.1f} ms")
    print(f"aiperf: {average('output_token_throughput'):.0f} output tokens/s, reasoning tokens {average('reasoning_token_count')}")
    assert valid == int(requests) and invalid == 0 and not result.get("error_summary"), result.get("error_summary")


if __name__ == "__main__":
    {"records": records, "tokenizer": tokenizer, "lm-eval": lm_eval, "aiperf": aiperf}[sys.argv[1]](*sys.argv[2:])
