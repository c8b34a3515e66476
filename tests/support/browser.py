"""A real, headless browser for tests: the Chromium that is installed on this machine, and no network but our own."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}


def screenshots() -> Path:
    """Where looks are kept: TIDEMARK_SCREENSHOTS, or build/screenshots."""
    folder = Path(os.environ.get("TIDEMARK_SCREENSHOTS") or "build/screenshots").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def open_page(**options: Any) -> Iterator[Page]:
    """A page of a fresh browser; skips the test where there is none."""
    executable = next((found for name in NAMES if (found := shutil.which(name))), None)
    if executable is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is installed (apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        try:
            page = browser.new_context(**{"viewport": DESKTOP, **options}).new_page()
            page.set_default_timeout(60_000)
            yield page
        finally:
            browser.close()
