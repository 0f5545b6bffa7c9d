"""Mistakes in the console's live page."""

from __future__ import annotations

from tests.mutants.mutant import of

HUB = "agent_console/live/test_hub.py"
PAGE = "agent_console/live/test_live_page.py"

IN_CONSOLE = (
    *of(
        "agent_console/live/hub.py",
        HUB,
        ("if len(self._frames) >= MOST_WAITING:", "if False:", "a reader that does not read is cut off"),
        ("while self._frames and len(chunk) < CHUNK:", "while self._frames:", "what is written at once is bounded"),
        ("if start != self._start or", "if", "another run's events are not this one's"),
        ("len(self._kept) - missed :]", "len(self._kept) - missed - 1 :]", "nothing comes twice"),
        ("if len(self._readers) >= self._most or", "if", "the number of pages is bounded"),
    ),
    *of(
        "agent_console/live/feed.py",
        PAGE,
        ("if len(message_ids) >= REREAD_FROM:", "if False:", "a history that is read is one event"),
        ("        self.hub.close()\n", "        pass\n", "the end of the program does not wait for pages"),
    ),
    *of(
        "agent_console/live/thinking.py",
        PAGE,
        ("if thought.since > oldest}", "}", "a turn that never ends is dropped"),
        ("since = min(notice.at, self._clock())", "since = notice.at", "nobody thinks since later"),
    ),
    *of(
        "agent_console/api/live.py",
        PAGE,
        ("if parts.people is None:", "if False:", "outside of local mode nobody writes from the page"),
    ),
)
