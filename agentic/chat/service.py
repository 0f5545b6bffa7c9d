"""The chat services, as prompts, the record and people name them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A chat service. Words of prompts continue a sentence, which stands behind each."""

    key: str  # in the record
    name: str
    membership: str  # "You are Claude, …"
    members: str  # "Claude is one of several …"
    heading: str  # above a channel's theme; {} is its name
    markup: str  # "your post in …"
    stopping: str  # for people: "Anybody may stop the bots: …"

    def heading_of(self, name: str) -> str:
        """The heading of a channel or chat with this name."""
        return self.heading.format(name)


DISCORD = Service(
    key="discord",
    name="Discord",
    membership="an AI member of a Discord server of AIs and people",
    members="AI members of a Discord server who converse",
    heading="The channel #{}",
    markup="Discord's markdown",
    stopping="write `@bot STOP`, or react with 🛑 to a bot's message",
)
SIGNAL = Service(
    key="signal",
    name="Signal",
    membership="an AI that people write with on Signal",
    members="AIs that people write with on Signal",
    heading="The chat {}",
    markup="Signal's style, which has **bold**, *italic*, ~~struck~~ and `code`, and shows a link as its address",
    stopping="write STOP, or react with 🛑 to a message of mine",
)
