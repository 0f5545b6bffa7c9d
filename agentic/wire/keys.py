"""Every Redis channel and key name. All begin with `agent:{name}:` or `coordinator:`. Every key expires or is
bounded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

OfText = Callable[[str], str]
OfNumber = Callable[[int], str]
OfChannel = Callable[[int | Literal["*"]], str]  # "*" in a pattern: every channel
OfAgentAndText = Callable[[str, str], str]
OfAgentAndNumber = Callable[[str, int], str]

COORDINATOR_OWNER = "coordinator:owner"
COORDINATOR_COMMANDS = "coordinator:commands"
COORDINATOR_ACTIVITY = "coordinator:activity"  # pub/sub: people's messages
COORDINATOR_CANCELS = "coordinator:cancels"  # pub/sub: canceled turns of background tasks
COORDINATOR_IDLE = "coordinator:idle"  # hash: when each background task last ran, and is due
COORDINATOR_OUTCOMES = "coordinator:outcomes"
SILENCE = "coordinator:silence"  # hash: the last order to stop, pause, mute, or ignore, by scope
SILENCE_NOTICES = "coordinator:silence_notices"  # pub/sub: new orders
LIVE_OPTIONS = "coordinator:live_options"  # hash: options set with /config
LIVE_OPTION_NOTICES = "coordinator:live_option_notices"  # pub/sub: an option changed
COORDINATOR_RESETS = "coordinator:resets"
COORDINATOR_FORGETS = "coordinator:forgets"
COORDINATOR_FORGOTTEN = "coordinator:forgotten"
COORDINATOR_COMMANDS_BOT = "coordinator:commands_bot"
COORDINATOR_TURNS = "coordinator:turns"  # pub/sub: turns that begin and end
COORDINATOR_RECORD = "coordinator:record"
ROOM_SHARES = "coordinator:room_shares"  # links by which anyone can read a room's page
ROOM_OPENINGS = "coordinator:room_openings"  # rooms whose threads are being made
COORDINATOR_ROOMS = "coordinator:rooms"  # sorted set: all rooms by their last change
ROOM_NOTICES = "coordinator:room_notices"  # pub/sub: rooms that changed
COORDINATOR_ARENAS = "coordinator:arenas"  # hash: running votes, by channel
COORDINATOR_PROPOSALS = "coordinator:proposals"  # hash: debates that members proposed
COORDINATOR_STIRRED = "coordinator:proposals_stirred"  # set: messages with new reactions that may agree to one
AVATARS = "coordinator:avatars"  # hash: pictures that were uploaded for personas
PERSONAS_OWNER = "coordinator:personas"
WEBHOOK_POSTED = "coordinator:webhook_posted"  # pub/sub: posts of our own webhooks
RECORDER_OWNER = "coordinator:recorder"
RECORDED_AGENTS = "coordinator:recorded_agents"  # set: personas whose turns the record has
COORDINATOR_CHECK = "coordinator:check"  # written and deleted by --check

# For an agent, by its name
instructions: OfText = "agent:{}:instructions".format
results: OfText = "agent:{}:results".format
ready: OfText = "agent:{}:ready".format
owner: OfText = "agent:{}:owner".format
open_turns: OfText = "agent:{}:open".format
turns: OfText = "agent:{}:turns".format
words: OfText = "agent:{}:words".format
bench: OfText = "agent:{}:bench".format
seen: OfText = "agent:{}:seen".format
ticks: OfText = "agent:{}:ticks".format
turn: OfAgentAndText = "agent:{}:turn:{}".format  # a turn's id
turn_picture: OfAgentAndText = "agent:{}:turn:{}:picture".format
daily_count: OfAgentAndText = "agent:{}:count:{}".format  # a date
counted_turns: OfAgentAndText = "agent:{}:count:{}:turns".format  # a date
memory_writes: OfAgentAndText = "agent:{}:memory_writes:{}".format  # a date
cost: OfAgentAndText = "agent:{}:cost:{}".format  # a date
post_claim: OfAgentAndText = "agent:{}:part:{}".format  # digest of a part of a post that was sent, or may have been
cooldown: OfAgentAndNumber = "agent:{}:cooldown:{}".format  # a channel
session: OfAgentAndNumber = "agent:{}:session:{}".format  # a channel
reset: OfAgentAndNumber = "agent:{}:reset:{}".format  # a channel
window: Callable[[str, int, str], str] = "agent:{}:window:{}:{}".format  # a channel, a kind

# For another key
epoch: OfText = "{}:epoch".format  # how often the lease under that key was taken
entries_counted: OfText = "{}:count".format  # how many entries a stream of the record has had

# For a date
budget: OfText = "coordinator:budget:{}".format
budget_holds: OfText = "coordinator:budget:{}:holds".format
budget_held: OfText = "coordinator:budget:{}:held".format
schedule: OfText = "coordinator:schedule:{}".format
channel_queue: OfText = "coordinator:channel_queue:{}".format
# Set once the day's queue was filled: Redis has no empty lists, and the queue must not be filled twice.
channel_queue_filled: OfText = "coordinator:channel_queue:{}:filled".format

# For a channel or thread
conversation: OfChannel = "coordinator:conversation:{}".format
conversation_state: OfChannel = "coordinator:conversation_state:{}".format
summary: OfChannel = "coordinator:summary:{}".format  # of messages before the windows of a room's members
summary_claim: OfChannel = "coordinator:summary_claim:{}".format  # claim to make a room's next summary
starter_queue: OfNumber = "coordinator:starter_queue:{}".format
reactive_cooldown: OfNumber = "coordinator:reactive_cooldown:{}".format
room: OfNumber = "coordinator:room:{}".format
room_marks: OfNumber = "coordinator:room_marks:{}".format  # what was announced and done in a room's thread
pulls: OfNumber = "coordinator:pulls:{}".format  # agents' scores when the last speaker was chosen
past_pulls: OfNumber = "coordinator:past_pulls:{}".format  # and when the speakers before it were
webhook_posts: OfNumber = "coordinator:webhook_posts:{}".format
instructed: OfNumber = "coordinator:instructed:{}".format

# For a message, a person, a request
unasked: OfNumber = "coordinator:unasked:{}".format  # the person whom an unprompted message was for
notice: Callable[[int, str], str] = "coordinator:notice:{}:{}".format  # a message, the occasion
mentions: OfNumber = "coordinator:mentions:{}".format  # of a person
forgotten_words: OfNumber = "coordinator:forgotten:{}".format  # the recorder's answer to a person's request
forgotten_chats: OfNumber = "coordinator:forgotten:{}:chats".format  # private chats named in a person's requests
unwanted: OfNumber = "coordinator:unwanted:{}".format  # set if a person wants no more unprompted messages
proposer: OfNumber = "coordinator:proposer:{}".format  # a person's open or last proposal
room_opening: OfText = "coordinator:room_opening:{}".format  # a requested room whose members are still to be chosen
event: OfText = "coordinator:event:{}".format  # the digest of a signed request
