"""A person's yes or no to unasked messages: it counts at once, and the record has it."""

from __future__ import annotations

from agentic.record.notes import Consents
from agentic.wire.entries import ConsentNote
from tests.support.agent_scene import KeptNotes
from tests.support.doubles import ALICE, BOB, Clock, MemoryProactive


async def test_a_no_counts_at_once_a_yes_ends_it_and_the_record_has_both() -> None:
    clock, notes, wishes = Clock(), KeptNotes(), MemoryProactive()
    consents = Consents(notes, wishes, clock)
    assert await consents.refuse(ALICE, because="command")
    assert (await wishes.is_unwanted(ALICE), await wishes.is_unwanted(BOB)) == (True, False)
    await consents.allow(ALICE, because="command")
    assert not await wishes.is_unwanted(ALICE)
    assert list(notes) == [
        ConsentNote(user_id=ALICE, unasked=unasked, because="command", at=clock.now) for unasked in (False, True)
    ]


async def test_of_several_that_hear_one_sign_the_first_alone_notes_it_and_a_command_is_always_noted() -> None:
    clock, wishes, notes = Clock(), MemoryProactive(), KeptNotes()
    first, second = Consents(notes, wishes, clock), Consents(notes, wishes, clock)
    assert await first.refuse(ALICE, because="🔕", once=True)
    assert not await second.refuse(ALICE, because="🔕", once=True)
    assert not await second.refuse(ALICE, because="command")
    assert [note.because for note in notes if isinstance(note, ConsentNote)] == ["🔕", "command"]
