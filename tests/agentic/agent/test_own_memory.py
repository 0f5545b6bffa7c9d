"""A person's profile and wishes, in texts that any service can show."""

from __future__ import annotations

from datetime import UTC
from types import SimpleNamespace
from typing import Any

import pytest

from agentic.actions.base import FIELD_CHARACTERS
from agentic.agent.privacy import DELETED, ELSEWHERE, NO_PROFILE, NO_RECORD, OwnMemory
from agentic.record.memories import Profile
from agentic.record.notes import Consents
from agentic.wire.entries import MAX_TOPICS, TOPIC_CHARACTERS, ConsentNote, ProfileNote
from tests.support.agent_scene import KeptNotes
from tests.support.doubles import ALICE, BOB, Clock
from tests.support.remembered import Remembered

BEES = Profile(ALICE, "Alice", ("bees", "tea"), "model", 1_780_000_000.0)


class Wishes:
    """Takes every wish."""

    async def refuse(self, user_id: int) -> bool:
        return bool(user_id)

    async def allow(self, user_id: int) -> None:
        del user_id


def own(*, records: bool = True, clock: Clock | None = None, **memory: Any) -> tuple[OwnMemory, KeptNotes]:
    notes, clock = KeptNotes(), clock or Clock()
    consents = Consents(notes, Wishes(), clock)
    forgetting: Any = SimpleNamespace(stores={})
    settings: Any = SimpleNamespace(records=records, timezone=UTC, agents=("claude",))
    return OwnMemory(Remembered(**memory), notes, consents, clock, settings, forgetting), notes


async def test_a_profile_is_shown_with_its_origin() -> None:
    mine, _ = own(profiles={ALICE: BEES})
    shown = await mine.profile_text(ALICE)
    assert shown.startswith("Topics you talk about, noted by a model from what you wrote (last changed 2026-05-28)")
    assert "\n- bees\n- tea\n" in shown
    assert await mine.profile_text(BOB) == NO_PROFILE


@pytest.mark.parametrize(
    ("memory", "problem"), [({"records": False}, NO_RECORD), ({"is_here": False}, ELSEWHERE)], ids=["none", "elsewhere"]
)
async def test_where_nothing_can_be_read_a_line_says_why(memory: dict[str, bool], problem: str) -> None:
    mine, _ = own(**memory, profiles={ALICE: BEES})
    assert await mine.profile_text(ALICE) == mine.problem == problem


async def test_a_change_is_noted_and_shown_before_the_record_has_it() -> None:
    clock = Clock()
    mine, notes = own(profiles={ALICE: BEES}, clock=clock)
    assert mine.save_profile(ALICE, "- wasps\n\n wasps \n* the  lake") == "Saved. Your profile now has 2 topics."
    (note,) = notes
    assert note == ProfileNote(user_id=ALICE, topics=("wasps", "the lake"), by="person", at=clock())
    assert "as you wrote them" in await mine.profile_text(ALICE)
    assert await mine.topics(ALICE) == ("wasps", "the lake")
    clock.now += 61
    assert await mine.topics(ALICE) == ("bees", "tea")


@pytest.mark.parametrize("text", ["", " \n-\n"])
async def test_an_empty_one_is_removed(text: str) -> None:
    mine, notes = own(profiles={ALICE: BEES})
    assert mine.save_profile(ALICE, text) == DELETED
    assert [(note.deleted, note.topics) for note in notes if isinstance(note, ProfileNote)] == [(True, ())]
    assert await mine.profile_text(ALICE) == NO_PROFILE


async def test_topics_are_bounded_and_the_rest_is_counted() -> None:
    mine, _ = own()
    assert "3 more didn't fit" in mine.save_profile(ALICE, "\n".join(map(str, range(MAX_TOPICS + 3))))
    assert len(await mine.topics(ALICE)) == MAX_TOPICS
    mine.save_profile(ALICE, "x" * 500)
    assert await mine.topics(ALICE) == ("x" * TOPIC_CHARACTERS,)


def test_a_full_profile_fits_a_field_of_a_form() -> None:
    assert MAX_TOPICS * (TOPIC_CHARACTERS + 1) <= FIELD_CHARACTERS


async def test_a_wish_about_unasked_messages_is_noted() -> None:
    mine, notes = own(consents={ALICE: True})
    assert await mine.consent(ALICE) is True
    assert "Bots no longer write to you" in await mine.set_unprompted(ALICE, False)
    assert [(note.unasked, note.because) for note in notes if isinstance(note, ConsentNote)] == [(False, "command")]
    assert await mine.consent(ALICE) is False
    assert await mine.consent(BOB) is None


async def test_without_a_record_nothing_is_noted() -> None:
    mine, notes = own(records=False)
    wished = await mine.set_unprompted(ALICE, True)
    assert {mine.save_profile(ALICE, "bees"), mine.delete_profile(ALICE), wished} == {NO_RECORD}
    assert notes == []
