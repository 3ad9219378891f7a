"""Draws the picture in the README. In: the file. Out: the page with a recorded stream, as a PNG. Nothing is held."""

from __future__ import annotations

import os
import sys

from playwright.sync_api import expect, sync_playwright
from test_page import Server


def main(file: str) -> None:
    server = Server()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=os.environ["CHROMIUM"], args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": 1280, "height": 940})
            page.goto(server.url + "#id=C018&cut=as-given&at=0")
            expect(page.locator("#same")).to_contain_text("the same result")
            page.locator("summary").click()
            page.click("[data-do=last]")
            page.locator("[data-what=bytes] [data-part=argument]").first.hover()
            page.screenshot(path=file)
    finally:
        server.stop()


if __name__ == "__main__":
    main(sys.argv[1])
