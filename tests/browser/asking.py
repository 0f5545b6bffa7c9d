"""Going to a channel of the live page, and asking a bot there."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def channel(page: Page, name: str) -> None:
    """Go to a channel's page, by its address."""
    page.locator("nav.channels a", has_text=name).first.wait_for(state="attached")
    page.goto(page.locator("nav.channels a", has_text=name).first.evaluate("link => link.href"))
    page.get_by_role("textbox", name=f"Message to #{name}").wait_for()


def answer_to(page: Page, text: str, bot: str) -> Locator:
    """The bot's first message below the one with this text, which no other message of the channel may have."""
    return page.locator(f'[role=log] article.message:has-text("{text}") ~ article.message[aria-label^={bot}]').first


def ask(page: Page, text: str, place: str = "memes", bot: str = "Gemini") -> Locator:
    """Ask a bot in a channel, wait for its answer, and return it. `text` is asked nowhere else in the channel."""
    channel(page, place)
    box = page.get_by_role("textbox", name=f"Message to #{place}")
    box.fill(f"@{bot.lower()} {text}")
    box.press("Enter")
    answer = answer_to(page, text, bot)
    answer.wait_for()
    return answer
