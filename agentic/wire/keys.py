"""Every Redis channel and key name, once.

All begin `agent:{name}:` or `coordinator:`; every key has an end or a bound.
"""

from __future__ import annotations

from typing import Literal

COORDINATOR_OWNER = "coordinator:owner"
COORDINATOR_COMMANDS = "coordinator:commands"
COORDINATOR_ACTIVITY = "coordinator:activity"  # pub/sub: people's messages
COORDINATOR_CANCELS = "coordinator:cancels"  # pub/sub: turns of idle tasks that end
COORDINATOR_IDLE = "coordinator:idle"  # hash: when each idle task ran last, and is due
COORDINATOR_OUTCOMES = "coordinator:outcomes"
COORDINATOR_STOPS = "coordinator:stops"
COORDINATOR_HUSHES = "coordinator:hushes"
COORDINATOR_IGNORES = "coordinator:ignores"
COORDINATOR_IGNORED = "coordinator:ignored"
LIVE_OPTIONS = "coordinator:live_options"  # hash: options that people set by /config
LIVE_OPTION_NOTICES = "coordinator:live_option_notices"  # pub/sub: one of them changed
COORDINATOR_RESETS = "coordinator:resets"
COORDINATOR_FORGETS = "coordinator:forgets"
COORDINATOR_FORGOTTEN = "coordinator:forgotten"
COORDINATOR_COMMANDS_BOT = "coordinator:commands_bot"
COORDINATOR_TURNS = "coordinator:turns"  # pub/sub: turns that begin and end
COORDINATOR_RECORD = "coordinator:record"
ROOM_OPENINGS = "coordinator:room_openings"  # rooms whose threads are being made
COORDINATOR_ROOMS = "coordinator:rooms"  # sorted set: all rooms by their last change
ROOM_NOTICES = "coordinator:room_notices"  # pub/sub: rooms that changed
COORDINATOR_ARENAS = "coordinator:arenas"  # hash: votes that are under way, by channel
PERSONAS_OWNER = "coordinator:personas"
WEBHOOK_POSTED = "coordinator:webhook_posted"  # pub/sub: posts of our own webhooks
RECORDER_OWNER = "coordinator:recorder"
RECORDED_AGENTS = "coordinator:recorded_agents"  # set: personas whose turns the record has
SIGNAL_PEOPLE = "coordinator:signal_people"  # hash: who is who on Signal
SIGNAL_CHATS = "coordinator:signal_chats"  # hash: where a chat of Signal is
SIGNAL_VANISHING = "coordinator:signal_vanishing"  # sorted set: messages of Signal by the time at which they vanish
COORDINATOR_CHECK = "coordinator:check"  # tried out by --check, gone at once


def instructions(agent: str) -> str:
    return f"agent:{agent}:instructions"


def results(agent: str) -> str:
    return f"agent:{agent}:results"


def ready(agent: str) -> str:
    return f"agent:{agent}:ready"


def owner(agent: str) -> str:
    return f"agent:{agent}:owner"


def epoch(lease: str) -> str:
    """How often the lease under that key was taken."""
    return f"{lease}:epoch"


def turn(agent: str, turn_id: str) -> str:
    return f"agent:{agent}:turn:{turn_id}"


def turn_picture(agent: str, turn_id: str) -> str:
    return f"agent:{agent}:turn:{turn_id}:picture"


def open_turns(agent: str) -> str:
    return f"agent:{agent}:open"


def turns(agent: str) -> str:
    return f"agent:{agent}:turns"


def words(agent: str) -> str:
    return f"agent:{agent}:words"


def entries_counted(stream: str) -> str:
    """How many entries a stream of the record has had."""
    return f"{stream}:count"


def bench(agent: str) -> str:
    return f"agent:{agent}:bench"


def seen(agent: str) -> str:
    return f"agent:{agent}:seen"


def daily_count(agent: str, date: str) -> str:
    return f"agent:{agent}:count:{date}"


def counted_turns(agent: str, date: str) -> str:
    return f"agent:{agent}:count:{date}:turns"


def cooldown(agent: str, channel_id: int) -> str:
    return f"agent:{agent}:cooldown:{channel_id}"


def ticks(agent: str) -> str:
    return f"agent:{agent}:ticks"


def memory_writes(agent: str, date: str) -> str:
    return f"agent:{agent}:memory_writes:{date}"


def muted(agent: str) -> str:
    return f"agent:{agent}:muted"


def cost(agent: str, date: str) -> str:
    return f"agent:{agent}:cost:{date}"


def budget(date: str) -> str:
    return f"coordinator:budget:{date}"


def budget_holds(date: str) -> str:
    return f"coordinator:budget:{date}:holds"


def window(agent: str, channel_id: int, kind: str) -> str:
    return f"agent:{agent}:window:{channel_id}:{kind}"


def summary(channel_id: int | Literal["*"]) -> str:
    """A summary of what lies before the windows of a room's members."""
    return f"coordinator:summary:{channel_id}"


def summary_claim(channel_id: int | Literal["*"]) -> str:
    """The claim of the turn that makes a room's next summary."""
    return f"coordinator:summary_claim:{channel_id}"


def session(agent: str, channel_id: int) -> str:
    return f"agent:{agent}:session:{channel_id}"


def reset(agent: str, channel_id: int) -> str:
    return f"agent:{agent}:reset:{channel_id}"


def mentions(user_id: int) -> str:
    return f"coordinator:mentions:{user_id}"


def forgotten_words(user_id: int) -> str:
    """The recorder's answer to a person's request."""
    return f"coordinator:forgotten:{user_id}"


def forgotten_chats(user_id: int) -> str:
    """The private chats that a person's requests name."""
    return f"coordinator:forgotten:{user_id}:chats"


def schedule(date: str) -> str:
    return f"coordinator:schedule:{date}"


def channel_queue(date: str) -> str:
    return f"coordinator:channel_queue:{date}"


def starter_queue(channel_id: int) -> str:
    return f"coordinator:starter_queue:{channel_id}"


def conversation(channel_id: int | Literal["*"]) -> str:
    """In a pattern "*" stands for every channel."""
    return f"coordinator:conversation:{channel_id}"


def conversation_state(channel_id: int | Literal["*"]) -> str:
    return f"coordinator:conversation_state:{channel_id}"


def room(thread_id: int) -> str:
    return f"coordinator:room:{thread_id}"


def room_marks(thread_id: int) -> str:
    """Marks of what was said and done in a room's thread."""
    return f"coordinator:room_marks:{thread_id}"


def room_opening(request: str) -> str:
    """A room that a person asked for, whose members are still to be chosen."""
    return f"coordinator:room_opening:{request}"


def pulls(channel_id: int) -> str:
    """The pulls of the agents when the last speaker was chosen."""
    return f"coordinator:pulls:{channel_id}"


def stop(channel_id: int | Literal["*"]) -> str:
    return f"coordinator:stop:{channel_id}"


def ordered(channel_id: int) -> str:
    """When a person last said stop or resume there."""
    return f"coordinator:ordered:{channel_id}"


def webhook_posts(channel_id: int) -> str:
    return f"coordinator:webhook_posts:{channel_id}"


def instructed(channel_id: int) -> str:
    return f"coordinator:instructed:{channel_id}"


def notice(message_id: int, occasion: str) -> str:
    return f"coordinator:notice:{message_id}:{occasion}"


def unasked(message_id: int) -> str:
    """For whom a message was that nobody asked for."""
    return f"coordinator:unasked:{message_id}"


def unwanted(user_id: int) -> str:
    """Set where a person wants no more messages that nobody asked for."""
    return f"coordinator:unwanted:{user_id}"


def post_claim(agent: str, digest: str) -> str:
    """A part of a post that was sent, or may have been."""
    return f"agent:{agent}:part:{digest}"


def event(digest: str) -> str:
    return f"coordinator:event:{digest}"


def reactive_cooldown(channel_id: int) -> str:
    return f"coordinator:reactive_cooldown:{channel_id}"


def channel_queue_filled(date: str) -> str:
    """Set once the day's queue was filled: an empty list does not exist, and must not be filled a second time."""
    return f"coordinator:channel_queue:{date}:filled"
