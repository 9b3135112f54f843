"""A real browser without a head: chromium, driven by playwright.

What is not installed (`pip install '.[browser]'`, `apt-get install chromium`) is a reason to skip.
MTLMON_CHROMIUM names another program than the `chromium` that is found.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

__all__ = ["PHONE", "SMALL_PHONE", "WIDE", "Scheme", "Visit", "chromium"]

WIDE, PHONE, SMALL_PHONE = 1280, 390, 320

Scheme = Literal["light", "dark"]


def chromium() -> str | None:
    """Return the path of the browser."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("MTLMON_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


class Visit:
    """A page that is looked at, and what the browser says of it."""

    def __init__(
        self,
        browser: Browser,
        address: str,
        *,
        width: int = WIDE,
        scheme: Scheme = "light",
        scripts: bool = True,
    ) -> None:
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self.context = browser.new_context(
            viewport={"width": width, "height": 900},
            color_scheme=scheme,
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        self.page: Page = self.context.new_page()
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(address)

    def __enter__(self) -> Visit:
        return self

    def __exit__(self, *_error: object) -> None:
        self.context.close()
