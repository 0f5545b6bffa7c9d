"""Vectors of what may be recalled: made in the background, gone with their text, and compared with a question."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from agentic.llm.embeddings import NO_VECTOR, Vector, unpacked, vector_of
from agentic.record import embeddings as module
from agentic.record.memories import MemoryReader
from agentic.wire.entries import DeletionNote
from tests.support.recording import AT, Scene, at_work, said, summary
from tests.support.redis_server import until

SUBJECTS = ("bees", "honey", "trains")


class Subjects:
    """A vector by the subjects that a text names; bees and honey are near each other. `refuses`: there is no money."""

    model = "ollama/subjects"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.refuses = False
        self.may = asyncio.Event()
        self.may.set()

    async def vectors(self, texts: Sequence[str]) -> Sequence[Vector] | None:
        self.asked += texts
        await self.may.wait()
        return None if self.refuses else [self.of(text) for text in texts]

    def of(self, text: str) -> Vector:
        bees, honey, trains = (subject in text.lower() for subject in SUBJECTS)
        other, noise = not (bees or honey or trains), len(text) % 7 * 0.02
        return vector_of([bees + 0.9 * honey, honey + 0.9 * bees, float(trains), float(other), noise])

    async def aclose(self) -> None:
        return None


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY", 0.0)
    monkeypatch.setattr(module, "REST", 0.0)


def ids(scene: Scene) -> list[int]:
    return [row[0] for row in scene.rows("SELECT id FROM embeddings ORDER BY abs(id)")]


async def test_messages_and_summaries_get_a_vector_and_short_ones_none(scene: Scene) -> None:
    subjects, chain = Subjects(), (said(1, "Bees fly in the morning"), said(2, "ok"))
    await scene.put(*chain, summary(*chain, text="They talked of bees and honey."))
    async with at_work(scene.recorder(meaning=subjects)):
        await until(lambda: len(ids(scene)) == 2)
    assert ids(scene) == [chain[0].message_id, -chain[1].message_id]
    ((model, stored),) = scene.rows("SELECT model, vector FROM embeddings WHERE id > 0")
    assert (model, unpacked(stored)) == ("ollama/subjects", subjects.of("Bees fly in the morning"))
    assert sorted(subjects.asked) == ["Bees fly in the morning", "They talked of bees and honey."]


@pytest.mark.promise(412)
async def test_a_vector_goes_with_its_text_and_an_edit_makes_another(scene: Scene) -> None:
    one, other = said(1, "Bees fly in the morning"), said(2, "Trains are late again")
    await scene.put(one, other)
    subjects = Subjects()
    async with at_work(scene.recorder(meaning=subjects)):
        await until(lambda: len(ids(scene)) == 2)
        edited = said(2, "Trains are on time today", read_at=AT)
        await scene.put(DeletionNote(channel_id=5, message_ids=(one.message_id,), at=AT), edited)
        await until(lambda: subjects.asked[-1] == edited.text and ids(scene) == [other.message_id])
    ((stored,),) = scene.rows("SELECT vector FROM embeddings")
    assert unpacked(stored) == subjects.of(edited.text)


@pytest.mark.promise(412)
async def test_what_is_deleted_while_its_vector_is_made_gets_none(scene: Scene) -> None:
    gone, kept = said(1, "Bees fly in the morning"), said(2, "Trains are late again")
    await scene.put(gone, kept)
    subjects = Subjects()
    subjects.may.clear()
    async with at_work(scene.recorder(meaning=subjects)):
        await until(lambda: len(subjects.asked) == 2)
        await scene.put(DeletionNote(channel_id=5, message_ids=(gone.message_id,), at=AT))
        await until(lambda: len(scene.rows("SELECT 1 FROM message_log")) == 1)
        subjects.may.set()
        await until(lambda: ids(scene) == [kept.message_id])


@pytest.mark.promise(413)
async def test_the_recorder_never_waits_for_the_model_and_asks_again_when_there_is_money(scene: Scene) -> None:
    await scene.put(said(1, "Bees fly in the morning"))
    subjects = Subjects()
    subjects.refuses = True
    async with at_work(scene.recorder(meaning=subjects)) as recorder:
        await until(lambda: len(subjects.asked) > 1)
        assert (ids(scene), recorder.problem) == ([], "")
        subjects.may.clear()
        await scene.put(said(2, "Trains are late again"))
        await until(lambda: len(scene.rows("SELECT 1 FROM message_log")) == 2)
        subjects.refuses = False
        subjects.may.set()
        await until(lambda: len(ids(scene)) == 2)


async def test_a_text_that_cannot_be_read_is_not_sent_again_and_is_found_by_nobody(scene: Scene) -> None:
    class ShortSighted(Subjects):
        def of(self, text: str) -> Vector:
            return NO_VECTOR if "Trains" in text else super().of(text)

    subjects = ShortSighted()
    await scene.put(said(1, "Trains are late again"))
    async with at_work(scene.recorder(meaning=subjects)):
        await until(lambda: len(ids(scene)) == 1)
        await scene.put(said(2, "Bees fly in the morning"))
        await until(lambda: len(ids(scene)) == 2)
    assert subjects.asked == ["Trains are late again", "Bees fly in the morning"]
    memory = MemoryReader(scene.path, subjects)
    assert await memory.recall("Trains to the sea", lambda _: True, 5) == ()
    await memory.aclose()


async def test_vectors_of_another_model_go_at_the_start(scene: Scene) -> None:
    await scene.put(said(1, "Bees fly in the morning"))
    async with at_work(scene.recorder(meaning=Subjects())):
        await until(lambda: len(ids(scene)) == 1)
    await scene.record()
    assert ids(scene) == []


async def kept(scene: Scene, subjects: Subjects) -> None:
    """Forty messages about trains, one of honey, and one in another channel."""
    trains = [said(number, f"The trains from platform {number} are late") for number in range(2, 42)]
    honey = said(1, "Honey from our own hives"), said(50, "Honey in a secret channel", channel_id=6)
    await scene.put(*honey, *trains)
    async with at_work(scene.recorder(meaning=subjects)):
        await until(lambda: len(ids(scene)) == 42)


@pytest.mark.promise(414)
async def test_what_means_the_same_in_other_words_is_recalled_where_the_reader_could_read_it(scene: Scene) -> None:
    subjects = Subjects()
    await kept(scene, subjects)
    memory = MemoryReader(scene.path, subjects)

    async def before_the_first(_channel):
        return 0, said(1).message_id

    found = await memory.recall("bees", lambda channel_id: channel_id == 5, 5)
    assert [each.text for each in found] == ["Honey from our own hives"]
    assert await memory.recall("bees", lambda channel_id: channel_id == 5, 5, before_the_first) == ()
    assert await memory.recall("bees", lambda channel_id: channel_id == 5, 5, ignored=[77]) == ()
    assert {each.channel_id for each in await memory.recall("bees", lambda _: True, 5)} == {5, 6}
    await memory.aclose()
    without = MemoryReader(scene.path)
    assert await without.recall("bees", lambda _: True, 5) == ()
    await without.aclose()


@pytest.mark.promise(414)
async def test_nothing_is_recalled_where_nothing_stands_out(scene: Scene) -> None:
    subjects = Subjects()
    await kept(scene, subjects)
    memory = MemoryReader(scene.path, subjects)
    assert await memory.recall("weather", lambda _: True, 5) == ()
    subjects.refuses = True
    assert await memory.recall("bees", lambda _: True, 5) == ()
    await memory.aclose()


async def test_a_model_that_does_not_answer_holds_no_turn_up(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentic.record.memories.MEANING_SECONDS", 0.01)
    subjects = Subjects()
    await kept(scene, subjects)
    subjects.may.clear()
    memory = MemoryReader(scene.path, subjects)
    assert await memory.recall("bees", lambda _: True, 5) == ()
    words = await memory.recall("honey", lambda channel_id: channel_id == 5, 5)
    assert [each.text for each in words] == ["Honey from our own hives"]
    await memory.aclose()
