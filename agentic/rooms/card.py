"""The closing card of a room: who holds which position, the lines that people liked best, who convinced most.

A vote is a person's 👍 on a member's post, one for each post. Pure.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from agentic.chat.splitting import length
from agentic.rooms.steps import closed_line, counted
from agentic.services.discord.multipart import LIMIT
from agentic.services.discord.room_upkeep import VOTE, RoomPost
from agentic.state.rooms import Room, RoomMember

NAME = 40  # characters of a member's name
POSITION = 110
BEST_LINE = 140
BEST = 3

_SENTENCE = re.compile(r"(?<=[.!?…])\s")
_LINK = re.compile(r"\[([^\[\]\n]*+)\]\([^()\n]*+\)")
_MARKS = re.compile(r"[`*_~|<>#\[\]]|https?://\S+")


def members_of(room: Room) -> tuple[RoomMember, ...]:
    """Those who take part and those who left, each once."""
    present = set(room.names)
    return (*room.members, *(member for member in room.left if member.name not in present))


def votes_of(room: Room, posts: Iterable[RoomPost]) -> dict[str, int]:
    """Member → its votes, the most first; those without one too, in speaking order."""
    counts = Counter[str]()
    for post in posts:
        counts[post.agent] += len(post.voters)
    names = [member.name for member in members_of(room)]
    return {name: counts[name] for name in sorted(names, key=lambda name: -counts[name])}


def first_sentences(room: Room, posts: Sequence[RoomPost]) -> dict[str, str]:
    """Member → the first sentence of its last post: its position, where no model says it better."""
    last = {post.agent: post.text for post in posts}
    names = (member.name for member in members_of(room))
    return {name: _SENTENCE.split(plain(last[name]), maxsplit=1)[0] for name in names if plain(last.get(name, ""))}


def closing_card(room: Room, posts: Sequence[RoomPost], positions: Mapping[str, str]) -> str:
    """The card as one message; whole lines are left out where it would be too long."""
    shown = {member.name: cut(plain(member.shown), NAME) for member in members_of(room)}
    parts = [
        [closed_line(room)],
        _titled("Positions", [_position(shown[name], text) for name, text in positions.items() if text]),
        _titled("Best lines", [_quoted(room, post, shown) for post in _best(posts)]),
        [_verdict(votes_of(room, posts), shown)],
    ]
    return _fitted(parts)


def _position(name: str, text: str) -> str:
    return f"**{name}**: {cut(plain(text), POSITION)}"


def _best(posts: Sequence[RoomPost]) -> list[RoomPost]:
    return sorted((post for post in posts if post.voters), key=lambda post: (-len(post.voters), post.message_id))[:BEST]


def _quoted(room: Room, post: RoomPost, shown: Mapping[str, str]) -> str:
    address = f"https://discord.com/channels/{room.guild_id or '@me'}/{room.thread_id}/{post.message_id}"
    author = shown.get(post.agent, post.agent)
    return f"> {cut(plain(post.text), BEST_LINE)}\n{VOTE} {len(post.voters)}, {author}: <{address}>"


def _verdict(votes: Mapping[str, int], shown: Mapping[str, str]) -> str:
    most = max(votes.values(), default=0)
    if not most:
        return "**Nobody voted**, so nobody convinced most."
    first = [name for name, count in votes.items() if count == most]
    others = ", ".join(f"{shown[name]} {count}" for name, count in votes.items() if name not in first)
    rest = f" ({others})" if others else ""
    if len(first) > 1:
        return f"**A tie**: {' and '.join(shown[name] for name in first)}, {counted(most, 'vote')} each{rest}."
    return f"**Convinced most**: {shown[first[0]]}, {counted(most, 'vote')}{rest}."


def _titled(title: str, lines: list[str]) -> list[str]:
    return [f"**{title}**", *lines] if lines else []


def _fitted(parts: Sequence[list[str]]) -> str:
    """The parts below each other; from the longest one lines are left out at its end until all fits."""
    kept = [list(part) for part in parts if part]
    while length(text := "\n\n".join("\n".join(part) for part in kept)) > LIMIT:
        longest = max(kept, key=lambda part: sum(map(len, part)) if len(part) > 1 else 0)
        longest.pop()
        if len(longest) == 1:
            kept.remove(longest)
    return text


def plain(text: str) -> str:
    """On one line, without markdown and addresses: what is quoted shows as words and nothing else."""
    return " ".join(_MARKS.sub("", _LINK.sub(r"\1", text)).split())


def cut(text: str, most: int) -> str:
    """The text, at most so many characters long: cut after a word, unless that would lose more than half."""
    if len(text) <= most:
        return text
    begun = text[: most - 1]
    words = begun if text[most - 1].isspace() else begun.rpartition(" ")[0]
    return (words if len(words) * 2 >= most else begun).rstrip(" ,;:–-") + "…"
