from types import SimpleNamespace

from agentic.agent.events import InstructionEvent
from agentic.turn.progress import TurnState
from agentic.turn.result import settle
from agentic.turn.runner import MAX_REMEMBERED, TurnRegistry
from agentic.wire.messages import Instruction, Result
from tests.support.doubles import SceneState

EVENT = InstructionEvent.of(Instruction(instruction_id="i1", channel_id=1, deadline=100.0), 0.0)
RESULT = Result(instruction_id="i1", agent_name="claude", text="hi", message_id=9)


async def ended(book, shared):
    book.keep("i1", RESULT)
    state = TurnState(shared, "claude", "i1")
    await settle(SimpleNamespace(key="claude", today=lambda: "2026-06-10"), EVENT, RESULT, state)


async def claim(book, shared, agent="claude"):
    """How the claim ended, and the turn's state."""
    state = TurnState(shared, agent, "i1")
    return await book.claim(EVENT, state), state


def test_a_turn_is_new_once():
    book = TurnRegistry("claude", SceneState(lambda: 0.0))
    assert [book.begin("i1"), book.begin("i1"), book.begin("i2")] == ["new", "running", "new"]


def test_a_turn_that_was_not_taken_is_new_again():
    book = TurnRegistry("claude", SceneState(lambda: 0.0))
    book.begin("i1")
    book.forget("i1")
    assert book.begin("i1") == "new"


async def test_a_finished_turn_answers_with_its_result_here_and_in_the_next_process():
    shared = SceneState(lambda: 0.0)
    book = TurnRegistry("claude", shared)
    assert (await claim(book, shared))[0] is None
    await ended(book, shared)
    assert book.begin("i1") == RESULT
    after_restart = TurnRegistry("claude", shared)
    assert (after_restart.begin("i1"), (await claim(after_restart, shared))[0]) == ("new", RESULT)
    assert after_restart.begin("i1") == RESULT


async def test_a_turn_is_claimed_once_while_its_process_lives_and_continued_after_that():
    shared = SceneState(lambda: 0.0)
    former, first = await claim(TurnRegistry("claude", shared), shared)
    assert (former, first.continued) == (None, False)
    assert (await claim(TurnRegistry("claude", shared), shared))[0] == "running"
    shared.crash()
    former, second = await claim(TurnRegistry("claude", shared), shared)
    assert (former, second.continued) == (None, True)


async def test_a_turn_that_was_given_up_can_be_claimed_again():
    shared = SceneState(lambda: 0.0)
    book = TurnRegistry("claude", shared)
    book.begin("i1")
    await claim(book, shared)
    book.hand_over("i1")
    assert book.begin("i1") == "new"
    assert (await claim(book, shared))[0] is None


async def test_the_same_id_is_another_turn_for_another_agent():
    shared = SceneState(lambda: 0.0)
    claims = [await claim(TurnRegistry(agent, shared), shared, agent) for agent in ("claude", "grok")]
    assert [(former, state.continued) for former, state in claims] == [(None, False), (None, False)]


async def test_a_kept_result_that_cannot_be_read_is_no_leave_to_post_again():
    shared = SceneState(lambda: 0.0)
    await shared.turns.close("claude", {"i1": "{broken"})
    assert (await claim(TurnRegistry("claude", shared), shared))[0] == "running"


async def test_while_redis_is_away_this_process_remembers(caplog):
    shared = SceneState(lambda: 0.0)
    shared.away = True
    book = TurnRegistry("claude", shared)
    assert book.begin("i1") == "new"
    assert (await claim(book, shared))[0] is None
    await ended(book, shared)
    assert book.begin("i1") == RESULT
    assert "only kept in memory" in caplog.text


def test_its_memory_has_a_bound_and_the_oldest_go_first():
    book = TurnRegistry("claude", SceneState(lambda: 0.0))
    for number in range(MAX_REMEMBERED + 1):
        book.begin(str(number))
    assert (book.begin(str(MAX_REMEMBERED)), book.begin("0")) == ("running", "new")
