"""The judge of a debate: who may be it, what it reads, and what becomes of its answer."""

import json
from datetime import UTC
from types import SimpleNamespace

import pytest

from agentic.agent.limits import ModelPrices, ProviderBackoff
from agentic.agent.side_calls import CheapModel
from agentic.llm.errors import ServerFailed
from agentic.llm.types import Reply, Usage
from agentic.rooms.judge import CRITERIA, Verdict, contenders_of, judge_prompt, judge_room, read_verdict
from agentic.rooms.room_bot import RoomPost
from agentic.state.budgets import Caps
from agentic.state.rooms import Room, RoomMember
from tests.support.doubles import Clock, SceneState

MEMBERS = (RoomMember(name="ada", shown="Ada", side="for"), RoomMember(name="grok", shown="Grok", side="against"))
ROOM = Room(
    thread_id=50, channel_id=5, conversation_id="c", topic="tomatoes", members=MEMBERS, opened_by=71, judge="gemini"
)
POSTS = (RoomPost(1, "ada", "Seeds."), RoomPost(2, "grok", "Soup."), RoomPost(3, "ada", "Soup has seeds."))
POINTS = {"for": dict.fromkeys(CRITERIA, 8), "against": {**dict.fromkeys(CRITERIA, 7), "evidence": 5}}
ANSWER = json.dumps({"scores": POINTS, "verdict": "For was clearer."})


class Model:
    name, free, closed = "google/g", False, False

    def __init__(self, answer):
        self.answer, self.asked = answer, []

    async def complete(self, prompt, history=()):
        self.asked.append(prompt)
        if isinstance(self.answer, Exception):
            raise self.answer
        return Reply(text=self.answer, usage=Usage(model=self.name, calls=1, text_cost_usd=0.002))

    async def aclose(self):
        self.closed = True


def a_court(answer, caps=None, why_not=None):
    clock, model = Clock(), Model(answer)
    settings = SimpleNamespace(coding=None)
    entry = SimpleNamespace(shown="Gemini", settings=settings, why_not=why_not)
    prices = ModelPrices("openai", "gpt-6-luna", None)
    made = CheapModel(model=model, prices=prices, redact=str, backoff=ProviderBackoff("judge", clock))
    services = SimpleNamespace(state=SceneState(clock, caps=caps), clock=clock)
    services.settings = SimpleNamespace(timezone=UTC)
    services.agents = SimpleNamespace(roster=SimpleNamespace(of=lambda key: entry if key == "gemini" else None))
    services.models = SimpleNamespace(make_judge=lambda _: made)
    return services, model


async def test_one_call_on_the_judges_account_gives_a_verdict_with_a_score_for_each_side():
    services, model = a_court(ANSWER)
    assert await judge_room(services, ROOM, POSTS) == Verdict(
        "Gemini (google/g)", "For was clearer.", {"for": 8.0, "against": 6.5}
    )
    assert (len(model.asked), model.closed) == (1, True)
    (record,) = services.state.recorded
    assert (record.agent, record.kind, record.asked_by, record.cost_usd) == ("gemini", "judge", 71, 0.002)


@pytest.mark.parametrize("answer", [ServerFailed("down"), "no JSON", json.dumps({"scores": {}, "verdict": "Ha."})])
async def test_a_judge_that_fails_is_named_without_a_verdict(answer):
    services, _ = a_court(answer)
    assert await judge_room(services, ROOM, POSTS) == Verdict("Gemini (google/g)")


async def test_over_the_budget_or_without_posts_no_judge_is_asked():
    services, model = a_court(ANSWER, Caps(person=0.0))
    assert await judge_room(services, ROOM, POSTS) == Verdict("Gemini (google/g)")
    assert await judge_room(services, ROOM, ()) is None
    assert await judge_room(services, ROOM.model_copy(update={"judge": ""}), POSTS) is None
    assert model.asked == []


async def test_a_judge_that_lost_its_model_meanwhile_gives_none():
    services, model = a_court(ANSWER, why_not="GEMINI_API_KEY isn't set")
    assert await judge_room(services, ROOM, POSTS) == Verdict("gemini")
    assert model.asked == []


def test_the_prompt_has_the_posts_in_order_with_sides_and_the_newest_if_there_are_too_many():
    prompt = judge_prompt(ROOM, POSTS)
    assert "## ada (for)\nSeeds.\n\n## grok (against)\nSoup.\n\n## ada (for)\nSoup has seeds." in prompt.text
    assert prompt.schema["properties"]["scores"]["required"] == ["for", "against"]
    assert all(name in prompt.system for name in CRITERIA)
    many = [RoomPost(n, "ada", f"{n} " + "x" * 2000) for n in range(100)]
    assert len(judge_prompt(ROOM, many).text) < 25_000
    assert "\n99 x" in judge_prompt(ROOM, many).text
    assert "\n5 x" not in judge_prompt(ROOM, many).text


@pytest.mark.parametrize(
    ("sides", "moderator", "contenders"),
    [
        (("for", "against", ""), None, ("for", "against")),
        (("for", "for", ""), None, ("a", "b", "c")),
        (("", "guest", ""), "a", ("b", "c")),
    ],
)
def test_sides_are_compared_or_members_but_no_moderator(sides, moderator, contenders):
    members = tuple(RoomMember(name=name, shown=name, side=side) for name, side in zip("abc", sides, strict=True))
    assert contenders_of(ROOM.model_copy(update={"members": members, "moderator": moderator})) == contenders


@pytest.mark.parametrize(
    ("points", "score"), [({}, None), (dict.fromkeys(CRITERIA, "8"), None), (dict.fromkeys(CRITERIA, 99), 10)]
)
def test_points_out_of_range_are_cut_and_missing_ones_are_no_verdict(points, score):
    found = read_verdict(json.dumps({"scores": {"a": points}, "verdict": "Yes."}), "j", ("a",))
    assert found.scores.get("a") == score
    assert bool(found.text) == (score is not None)


def test_a_member_without_a_side_has_a_score_of_its_own():
    verdict = Verdict("j", "Yes.", {"ada": 4.0})
    assert verdict.score_of(RoomMember(name="ada", shown="Ada")) == 4.0
    assert verdict.score_of(RoomMember(name="bob", shown="Bob")) is None
