from __future__ import annotations

import random

import pytest

from agent_coordinator.coordinator import Policies
from agent_coordinator.policies.pull import PullPolicy
from agent_coordinator.policies.rounds import Moderated, RoundRobin, Rounds
from agentic.state.rooms import Room, RoomMember
from tests.support.coordinator_doubles import AGENTS, CHANNEL, OTHER_CHANNEL, config, conversation

CONFIG = config(
    policy="pull",
    policies={"debate": "round-robin", str(OTHER_CHANNEL): "moderated"},
    talkativeness={"grok": 0.5},
    interests={"grok": ("ships",)},
    shown={"grok": "Grok"},
)
ADA = RoomMember(name="ada", shown="Ada", talkativeness=0.3, interests=("stars",))
BOB = RoomMember(name="bob", shown="Bob")
KINDS = {"rounds": Rounds, "round-robin": RoundRobin, "moderated": Moderated, "pull": PullPolicy, "of 2031": Rounds}


@pytest.mark.parametrize(
    ("channel", "theme", "policy"),
    [
        (1, "casual", "pull"),
        (1, "debate", "round-robin"),
        (CHANNEL, "debate", "round-robin"),
        (OTHER_CHANNEL, "debate", "moderated"),  # the channel counts more than its theme
        (OTHER_CHANNEL, "casual", "moderated"),
    ],
)
def test_a_channel_has_its_own_policy_else_its_themes_else_the_usual_one(channel, theme, policy):
    assert Policies(CONFIG).name_for(channel, theme) == policy


@pytest.mark.parametrize(("name", "kind"), KINDS.items())
def test_a_conversation_keeps_the_policy_with_which_it_began(name, kind):
    policy = Policies(CONFIG).of(conversation(policy=name))
    assert type(policy) is kind
    assert policy.agents == AGENTS
    assert policy.max_rounds == CONFIG.max_rounds


def test_the_agents_are_known_by_their_personas():
    pull = Policies(CONFIG).of(conversation(policy="pull"))
    assert pull.speakers[3] == RoomMember(name="grok", shown="Grok", talkativeness=0.5, interests=("ships",))
    assert pull.speakers[0] == RoomMember(name="chatgpt", shown="chatgpt")
    assert Policies(CONFIG).of(conversation(policy="rounds")).talkativeness == {"grok": 0.5}


def test_a_room_has_its_own_agents_and_moderator():
    room = Room(thread_id=1, channel_id=2, conversation_id="c", topic="t", members=(ADA, BOB), moderator="bob")
    moderated = Policies(CONFIG).of(conversation(policy="moderated", room=room))
    assert (moderated.agents, moderated.moderator) == (("ada", "bob"), "bob")
    pull = Policies(CONFIG).of(conversation(policy="pull", room=room))
    assert pull.speakers == (ADA, BOB)


def test_in_rounds_of_a_room_everybody_speaks_once_whatever_their_talkativeness():
    members = tuple(RoomMember(name=name, shown=name, talkativeness=part) for name, part in (("a", 0.9), ("b", 0.01)))
    quiet = RoomMember(name="c", shown="c", talkativeness=0.0)
    room = Room(thread_id=5, channel_id=1, conversation_id="c", topic="tea", members=(*members, quiet))
    state = conversation(policy="rounds", room=room)
    for seed in range(20):
        choice = Policies(CONFIG).of(state).choose(state, random.Random(seed))
        assert sorted(choice.speakers) == ["a", "b", "c"]
