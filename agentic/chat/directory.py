"""Which user is which of our agents, whose webhook posts are whose, and names that are harmless in a transcript.

Users are learned at login and from the presence of agents in other processes; posts from our own record of their ids.
Nothing is learned from a name, since anyone can take one. Strangers choose names: before a model sees a name,
everything is removed that could imitate a transcript's form (`[msg:1 …] Name: `), hide text, or turn it around.
"""

from __future__ import annotations

import re
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from agentic.context.entries import poses, reads_as_label, skeleton

MAX_POSTS = 20_000  # webhook posts remembered, the newest
MAX_NAME = 32  # characters
NOBODY = "someone"
_STRUCTURE = frozenset(
    ":：꞉˸∶︓﹕\u0589\u05c3\u0703\u1803\ua4fd\u205a\u2982@`\\<>[]{}()＜＞［］｛｝（）【】「」〔〕⟦⟧⟨⟩⁅⁆〈〉《》"
)
BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
_SPACES = frozenset({"Zs", "Zl", "Zp"})
_MAX_MARKS = 2  # more of them write over the neighbouring lines
_SENTENCE_ENDS = re.compile(r"[ \t]*+(?:[,.;:!?\n]|\Z)")


class Directory:
    """Agents' keys ↔ user ids, webhook posts → agents, and the bots' owners, shared by all bots of a process. `names`
    maps agents' keys to shown names; `owners` are named in the settings."""

    def __init__(self, names: Mapping[str, str] = MappingProxyType({}), owners: Iterable[int] = ()) -> None:
        self.know_names(names)
        self._owners: dict[str, frozenset[int]] = {"": frozenset(owners)}  # of each agent's application
        self._agents: dict[int, str] = {}
        self._ids: dict[str, int] = {}
        self._posts: OrderedDict[int, str] = OrderedDict()
        self._listeners: list[Callable[[int, str], None]] = []
        self._post_listeners: list[Callable[[int, str], None]] = []

    def know_names(self, names: Mapping[str, str]) -> None:
        self._shown = dict(names)
        self._names = frozenset(map(skeleton, names.values()))

    def learn(self, agent: str, user_id: int) -> None:
        """Note that `user_id` is `agent`; listeners are notified of a change."""
        self._ids[agent] = user_id
        self.learn_also(agent, user_id)

    def learn_also(self, agent: str, user_id: int) -> None:
        """Note that `user_id` is `agent` on another service; `id_of` stays as it is. Listeners are notified."""
        if self._agents.get(user_id) == agent:
            return
        self._agents[user_id] = agent
        for listener in self._listeners:
            listener(user_id, agent)

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(self._agents)

    def on_agent(self, listener: Callable[[int, str], None]) -> None:
        self._listeners.append(listener)

    def off_agent(self, listener: Callable[[int, str], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def agent_of(self, user_id: int) -> str | None:
        return self._agents.get(user_id)

    def id_of(self, agent: str) -> int | None:
        return self._ids.get(agent)

    def name_of(self, user_id: int) -> str | None:
        return self._shown.get(self._agents.get(user_id, ""))

    def distinct_name(self, user_id: int, name: str, *, bot: bool = False) -> str:
        """Return a user's name, with "a person" or "another bot" if it looks like an agent's or the program's name but
        isn't."""
        if user_id in self._agents or not (poses(name, self._names) or reads_as_label(name)):
            return name
        return f"{name}, another bot" if bot else f"{name}, a person"

    def learn_owners(self, agent: str, user_ids: Iterable[int]) -> None:
        self._owners[agent] = frozenset(user_ids)

    def is_owner(self, user_id: int) -> bool:
        return any(user_id in owners for owners in self._owners.values())

    def learn_post(self, message_id: int, agent: str) -> None:
        """Note that a webhook's message is `agent`'s; listeners are notified of a new one."""
        if message_id in self._posts:
            return
        self._posts[message_id] = agent
        if len(self._posts) > MAX_POSTS:
            self._posts.popitem(last=False)
        for listener in self._post_listeners:
            listener(message_id, agent)

    def on_post(self, listener: Callable[[int, str], None]) -> None:
        self._post_listeners.append(listener)

    def agent_of_post(self, message_id: int) -> str | None:
        """Return the agent of a webhook post; None if the post isn't ours."""
        return self._posts.get(message_id)


@lru_cache(maxsize=4096)
def clean_name(name: str) -> str:
    """Return a name that is harmless in a transcript: one line of at most 32 characters, never empty.

    Colons, brackets, `@`, backticks, and backslashes become spaces. Control, bidirectional, and invisible characters
    are removed, and so are piles of combining marks.
    """
    kept: list[str] = []
    marks = 0
    for char in name[: 8 * MAX_NAME]:
        category = unicodedata.category(char)
        marks = marks + 1 if category in ("Mn", "Me") else 0
        # Structure comes in other shapes too: superscript parentheses, a small colon.
        plain = unicodedata.normalize("NFKC", char) if char > "\x7f" else char
        if (
            not _STRUCTURE.isdisjoint({char, *plain})
            or char in BLANK_LETTERS
            or category in _SPACES
            or char in "\n\r\t\v\f"
        ):
            kept.append(" ")
        elif category not in _INVISIBLE and marks <= _MAX_MARKS:
            kept.append(char)
    return " ".join("".join(kept).split())[:MAX_NAME].strip() or NOBODY


def strip_mention(text: str, mentions: Iterable[str]) -> str:
    """Return the text without these mentions, without gaps where they were, and trimmed.

    A mention is `<@1>` as Discord sends it, or `@Claude` as the transcript has it.
    """
    mention = "|".join(re.escape(one) + ("" if one.endswith(">") else r"(?!\w)") for one in mentions)
    text = re.sub(rf"\A\s*(?:(?:{mention})[ \t]*)+[,:]?(?=\s|\Z)", "", text)
    run = re.compile(rf"(?:(?<![ \t])[ \t]++)?(?:{mention})(?:[ \t]*+(?:{mention}))*+")
    text = run.sub(lambda found: "" if _SENTENCE_ENDS.match(found.string, found.end()) else found[0], text)
    return re.sub(rf"(?:{mention})[ \t]*", "", text).strip()
