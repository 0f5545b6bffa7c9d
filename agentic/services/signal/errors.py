"""The ways in which a request to Signal's server fails. No text of theirs has a phone number in full.

SignalError       the root
  Unreachable     no connection, or no answer in time: whether it was carried out is not known
    NotConnected  nothing was sent: the connection was refused, or the server has no connection of its own
  Unreadable      an answer of a shape that nobody foresaw
  Refused         an answer that says no; `status` is HTTP's
    RateLimited   429: Signal wants to see a captcha; `challenges` are the tokens to solve it for
"""

from __future__ import annotations

import re

import aiohttp

from agentic.services.signal.ids import masked

MAX_SAID = 300  # characters of the server's own words

_ADDRESS = re.compile(r"\+\d{6,15}|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_WORTH_ANOTHER_TRY = ("SocketException", "UnexpectedErrorException")
_FINAL = re.compile(
    r"unregistered|not registered|untrusted|invalid|not a valid|not a (?:group )?member|not found|does not exist"
    r"|no message|attachment|captcha|proof required|rate limit",
    re.IGNORECASE,
)


class SignalError(Exception):
    """A request to Signal's server failed."""


class Unreachable(SignalError):
    """No connection, or no answer in time."""


class NotConnected(Unreachable):
    """The connection was refused, or the server said that it can't carry anything out: nothing was sent."""


class Unreadable(SignalError):
    """An answer of a shape that nobody foresaw."""


class Refused(SignalError):
    """An answer that says no. `said` are the server's words, without addresses; `is_json`: in the form of its API."""

    def __init__(self, status: int, said: str, *, is_json: bool = False) -> None:
        self.status, self.said, self.is_json = status, said, is_json
        super().__init__(f"HTTP {status}: {said}" if said else f"HTTP {status}")

    @property
    def is_passing(self) -> bool:
        """Whether the same request may succeed a moment later: the connection between signal-cli and Signal broke."""
        return self.status == 400 and any(sign in self.said for sign in _WORTH_ANOTHER_TRY)

    @property
    def is_final(self) -> bool:
        """Whether another try gets the same answer: it is about the message or its recipient, not about the server."""
        if self.status == 400:
            return _FINAL.search(self.said) is not None and not self.is_passing
        return self.status < 500 and self.status != 404  # whatever answers 404 there, it sends no messages yet

    @property
    def is_uncertain(self) -> bool:
        """Whether the message may have been sent all the same: something failed in the server, or behind a proxy."""
        return self.status >= 500 and self.status != 503

    @property
    def is_not_yet(self) -> bool:
        """Whether a server that is starting may say this before it carries anything out."""
        return self.status in (400, 404) or self.status >= 500


class RateLimited(Refused):
    """Signal takes no more messages of the account until a person has solved a captcha for these tokens."""

    def __init__(self, said: str, challenges: tuple[str, ...] = ()) -> None:
        super().__init__(429, said)
        self.challenges = challenges


def without_addresses(text: str) -> str:
    """The server's words on one line, with two characters left of each phone number and account id."""
    return _ADDRESS.sub(lambda found: masked(found[0]), " ".join(text.split()))[:MAX_SAID]


def broken(error: Exception) -> Unreachable:
    """A connection that broke, with the kind of its error for the log."""
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return NotConnected(type(error).__name__)
    return Unreachable("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
