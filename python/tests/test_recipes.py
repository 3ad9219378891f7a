"""The pages of docs/data that run in one process, where their package is installed; `python/recipes` has the others."""

from typing import Any

import pytest

import recipes


def run(page: str, count: int = 3000) -> dict[str, Any]:
    names: dict[str, Any] = {"OUTPUTS": recipes.outputs(count)}
    exec(compile(recipes.code(page), page, "exec"), names)
    return names


def test_pandas() -> None:
    pytest.importorskip("pandas", minversion="3")
    called = run("pandas")["called"]
    assert list(called["id"]) == list(range(3000))
    assert called["content"].iloc[2999] == "Looking at 2999."
    assert called["tool_calls"].iloc[7][0]["arguments"] == '{"path":"/tmp/7"}'


def test_polars() -> None:
    pytest.importorskip("polars")
    called = run("polars")["called"]
    assert called["id"].to_list() == list(range(3000))
    assert called["tool_calls"][7][0]["arguments"] == '{"path":"/tmp/7"}'
    assert called["bytes"].struct.field("input").to_list() == [len(text) for text in recipes.outputs(3000)]


def test_duckdb() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    assert run("duckdb")["called"] == [(f"Looking at {number}.", "ls") for number in range(3000)]
