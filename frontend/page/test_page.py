"""The page, driven in Chromium: each control, each recorded stream, hostile text, long streams, a server that goes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(os.environ["TARGET"])
HOSTILE = "<img src=x onerror=alert(1)><script>window.hit=1</script></pre>&amp;\u202eevil\u2066\u0007\u00ad"


class Server:
    """The frontend on a port of its own, which can be stopped and started again."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        self.start()

    def start(self, *more: str) -> None:
        command = [TARGET / "kimi-xtml-frontend", "--port", str(self.port), *more]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        assert "listening" in self.process.stdout.readline()

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(20_000)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda said: faults.append(said.text) if said.type == "error" else None)
    page.faults = faults  # type: ignore[attr-defined]
    page.goto(server.url)
    expect(page.locator("#recorded option").first).to_be_attached()
    yield page
    context.close()
    assert [fault for fault in faults if "Failed to load resource" not in fault] == []


def paste(page: Page, text: str, *, opened: str = "think", tools: str = "") -> None:
    page.fill("#pasted", text)
    page.select_option("#opened", opened)
    page.fill("#tools", tools)
    page.click("button[value=pasted]")


def ended(page: Page) -> None:
    """Shows the stream's end, once all of it is there."""
    expect(page.locator("#same")).not_to_be_empty()
    page.click("[data-do=last]")
    expect(page.locator("[data-what=state]")).to_contain_text("finish reason")


def shown(page: Page) -> str:
    """The stream as it is drawn, without flags."""
    return page.evaluate("[...document.querySelectorAll('[data-what=bytes] [data-part]')].map(s => s.textContent).join('')")


def corpora() -> list[dict[str, Any]]:
    files = ["tools", "malformed", "math"]
    return [json.loads(line) for file in files for line in (ROOT / "corpora" / f"{file}.jsonl").read_text().splitlines()]


def reason(case: dict[str, Any], result: dict[str, Any]) -> str:
    """The finish reason of a result: calls that are whole are one, where the engine just stopped."""
    engine = case["context"].get("engine_finish_reason", "stop")
    calls = engine == "stop" and any(call.get("complete", True) for call in result.get("tool_calls", []))
    return result.get("finish_reason") or ("tool_calls" if calls else engine)


def test_every_recorded_stream_gives_its_result(page: Page) -> None:
    seen = set()
    for case in corpora():
        if case["kind"] in seen or "expected" not in case:
            continue
        seen.add(case["kind"])
        page.select_option("#recorded", case["id"])
        page.click("button[value=recorded]")
        expect(page.locator("#name")).to_have_text(case["id"])
        ended(page)
        expect(page.locator("#same")).to_contain_text("the same result")
        results = [case["expected"], *case.get("alternatives", [])]
        reasons = {reason(case, result) for result in results}
        assert page.locator("[data-what=state] dd").last.inner_text() in reasons, case["id"]
        message = page.locator("[data-what=message]").inner_text()
        for call in case["expected"].get("tool_calls", []):
            assert call["name"] in message, case["id"]
    assert len(seen) >= 10


def test_controls(page: Page) -> None:
    paste(page, "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hello<|close|>response<|sep|>")
    ended(page)
    page.select_option("#chunking", "chars")
    ended(page)
    place = page.locator("[data-what=place]")
    expect(place).to_have_text("77 of 77")
    page.click("[data-do=first]")
    expect(place).to_have_text("0 of 77")
    page.click("[data-do=step]")
    expect(place).to_have_text("1 of 77")
    assert shown(page) == "H"
    page.click("[data-do=step]")
    page.click("[data-do=back]")
    expect(place).to_have_text("1 of 77")
    page.locator("input[type=range]").fill("10")
    expect(place).to_have_text("10 of 77")
    assert shown(page) == "Hm.<|close|"[:10]
    expect(page.locator("[data-part=held]").last).to_have_text("<|close")
    page.select_option("select[aria-label='Deltas a second']", "1000")
    page.click("[data-do=play]")
    expect(page.locator("[data-do=play]")).to_have_text("Pause")
    expect(place).to_have_text("77 of 77")
    expect(page.locator("[data-do=play]")).to_have_text("Play")
    page.get_by_label("ends of deltas").check()
    assert page.locator(".view .tick").count() == 76
    page.locator("[data-what=bytes] [data-part=content]").first.hover()
    detail = page.locator("[data-what=detail]")
    expect(detail).to_contain_text("content")
    expect(detail).to_contain_text("47–48")
    expect(page.locator("[data-what=frames]")).to_contain_text('"content":"o"')


def test_the_keyboard_does_all(page: Page) -> None:
    paste(page, "Hi<|close|>response<|sep|>?<|close|>think<|sep|>", opened="response")
    ended(page)
    page.locator("[data-what=bytes]").focus()
    page.keyboard.press("Home")
    expect(page.locator("[data-what=place]")).to_have_text("0 of 2")
    page.keyboard.press("ArrowRight")
    expect(page.locator("[data-what=place]")).to_have_text("1 of 2")
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-what=detail]")).to_contain_text("start")
    page.keyboard.press("ArrowDown")
    expect(page.locator("[data-what=detail]")).to_contain_text("content")
    page.keyboard.press("End")
    flag = page.locator("[data-what=diagnostics] a").first
    flag.focus()
    expect(page.locator("[data-what=detail]")).to_contain_text("meaning")
    page.locator("#tab-stream").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#server")).to_be_visible()
    expect(page.locator("#tab-server")).to_be_focused()


def test_a_call_is_drawn_in_its_parts(page: Page) -> None:
    call = '<|open|>tools<|sep|><|open|>call tool="ls" index="1"<|sep|><|open|>argument key="p" type="string"<|sep|>a"b<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
    paste(page, f"<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|>{call}", tools="ls")
    ended(page)
    expect(page.locator("[data-what=bytes] [data-part=call-name]")).to_have_text("ls")
    expect(page.locator("[data-what=bytes] [data-part=argument]")).to_have_text('a"b')
    expect(page.locator("[data-what=message]")).to_contain_text('{"p":"a\\"b"}')
    expect(page.locator("[data-what=message]")).to_contain_text("complete")
    expect(page.locator("[data-what=state]")).to_contain_text("tool_calls")


def test_hostile_text_stays_text(page: Page) -> None:
    paste(page, HOSTILE)
    ended(page)
    assert page.evaluate("window.hit") is None
    drawn = shown(page)
    assert "<script>window.hit=1</script>" in drawn
    assert "⟦U+202E⟧evil⟦U+2066⟧⟦U+0007⟧⟦U+00AD⟧" in drawn
    page.goto(page.url.split("#")[0] + "#case=!!!")
    page.reload()
    expect(page.locator("[data-what=place]")).to_contain_text("this link leads to no stream")


def test_ten_megabytes(page: Page) -> None:
    text = "A line of an answer that is long.\n" * (10_000_000 // 34)
    page.evaluate("text => { document.querySelector('#pasted').value = text; }", text)
    page.select_option("#opened", "response")
    page.click("button[value=pasted]")
    expect(page.locator("#same")).not_to_be_empty(timeout=120_000)
    page.click("[data-do=last]")
    expect(page.locator("[data-what=state]")).to_contain_text(str(len(text)))


def test_a_long_stream_stays_smooth(page: Page) -> None:
    case = {"id": "long", "context": {"initial_channel": "response"}, "chunks": ["word "] * 20_000}
    page.fill("#pasted", json.dumps(case))
    page.select_option("select[aria-label='Deltas a second']", "0")
    page.evaluate("""() => { window.times = []; let last = performance.now();
        const tick = now => { window.times.push(now - last); last = now; requestAnimationFrame(tick); }; requestAnimationFrame(tick); }""")
    page.click("button[value=pasted]")
    expect(page.locator("[data-what=place]")).to_have_text("20001 of 20001", timeout=60_000)
    times = sorted(page.evaluate("window.times"))
    typical, worst = times[len(times) // 2], times[int(len(times) * 0.95)]
    print(f"frames: median {typical:.1f} ms, 95 % within {worst:.1f} ms, longest {times[-1]:.1f} ms")
    assert typical < 50 and worst < 250


def test_links_and_copies_lead_back(page: Page, browser: Browser) -> None:
    paste(page, "Hm.<|close|>think<|sep|><|open|>response<|sep|>Hi")
    ended(page)
    page.select_option("#chunking", "random:2")
    ended(page)
    page.click("[data-do=back]")
    place = page.locator("[data-what=place]").inner_text()
    expect(page).to_have_url(re.compile("case="))
    page.wait_for_timeout(400)
    link = page.url
    other = page.context.new_page()
    other.goto(link)
    expect(other.locator("[data-what=place]")).to_have_text(place)
    expect(other.locator("#chunking")).to_have_value("random:2")
    assert shown(other) == shown(page)
    page.click("#copy")
    expect(page.locator("#copied")).to_have_text("copied")
    case = json.loads(page.evaluate("navigator.clipboard.readText()"))
    assert case["expected"]["content"] == "Hi" and case["context"]["initial_channel"] == "think"
    check = subprocess.run([TARGET / "kimi-xtml", "check", "-"], input=json.dumps(case), text=True, capture_output=True)
    assert check.returncode == 0, check.stdout + check.stderr


def test_captures_of_servers(page: Page) -> None:
    frame = {"choices": [{"index": 0, "text": "Hi<|close|>response<|sep|>", "finish_reason": "stop"}]}
    paste(page, f"data: {json.dumps(frame)}\n\ndata: [DONE]\n", opened="response")
    ended(page)
    expect(page.locator("#name")).to_have_text("captured")
    expect(page.locator("[data-what=message]")).to_contain_text("Hi")


def test_a_prompt_goes_to_the_engine(page: Page) -> None:
    page.fill("#prompt", "say grace")
    page.click("button[value=prompt]")
    ended(page)
    expect(page.locator("[data-what=message]")).to_contain_text("say grace")
    page.select_option("#chunking", "whole")
    ended(page)
    expect(page.locator("#same")).to_contain_text("the same result")


def test_two_views_at_once(page: Page, server: Server) -> None:
    other = page.context.new_page()
    other.goto(server.url)
    expect(other.locator("#recorded option").first).to_be_attached()
    paste(page, "one<|close|>think<|sep|>")
    paste(other, "two<|close|>think<|sep|>")
    for view, text in [(page, "one"), (other, "two")]:
        ended(view)
        assert shown(view) == f"{text}<|close|>think<|sep|>"


def test_a_server_that_goes_and_comes_back(page: Page, server: Server) -> None:
    page.click("#tab-server")
    expect(page.locator("#alive")).to_have_text("the server answers")
    server.stop()
    expect(page.locator("#alive")).to_contain_text("does not answer")
    page.click("#tab-stream")
    paste(page, "Hm.")
    expect(page.locator("[data-what=place].error")).not_to_be_empty()
    server.start()
    page.click("#tab-server")
    expect(page.locator("#alive")).to_have_text("the server answers")
    page.click("#tab-stream")
    paste(page, "Hm.")
    ended(page)


@pytest.mark.parametrize("width", [360, 800, 1920])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits(page: Page, width: int, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 800})
    paste(page, "x" * 500 + "<|close|>think<|sep|>")
    ended(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    ground, ink = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    bright = [sum(int(part) for part in colour.strip("rgb()").split(",")[:3]) for colour in (ground, ink)]
    assert (bright[0] > bright[1]) == (scheme == "light")


def test_without_scripts_it_says_what_is_missing(browser: Browser, server: Server) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url)
    says = page.locator("noscript p")
    expect(says).to_be_visible()
    expect(says).to_contain_text("This page needs JavaScript")
    context.close()


def test_the_file_that_inspect_writes(page: Page, tmp_path: Path) -> None:
    text = f"Hm.<|close|>think<|sep|><|open|>response<|sep|>{HOSTILE}"
    file = tmp_path / "page.html"
    subprocess.run([TARGET / "kimi-xtml", "inspect", "--opened", "think", "--chunk", "7", "--html", file, "-"], input=text, text=True, check=True)
    page.goto(file.as_uri())
    expect(page.locator("[data-what=state]")).to_contain_text("finish reason")
    assert "<script>window.hit=1</script>" in shown(page)
    assert page.evaluate("window.hit") is None
    page.click("[data-do=first]")
    page.click("[data-do=step]")
    assert shown(page) == "Hm.<|cl"


def test_how_long_a_play_takes_is_the_users_choice(page: Page) -> None:
    case = {"id": "slow", "context": {"initial_channel": "response"}, "chunks": ["a"] * 40}
    page.select_option("select[aria-label='Deltas a second']", "20")
    page.fill("#pasted", json.dumps(case))
    began = time.monotonic()
    page.click("button[value=pasted]")
    expect(page.locator("[data-what=place]")).to_have_text("41 of 41")
    assert time.monotonic() - began > 1.5
