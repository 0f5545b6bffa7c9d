"""What is found by a question, in any script, and that nothing is where nothing fits well."""

import sqlite3
from contextlib import closing
from functools import partial

import pytest

from agentic.ids import MAX_ID
from agentic.record import recall as module
from agentic.record.recall import Reach, beginning, is_alike, recall, terms
from tests.support.recording import said, summary

SAID = (
    "My greenhouse has eleven tomatoes now, and one of them is purple",
    "The train from Hamburg was forty minutes late again",
    "What do you think about the new philosophical podcast?",
    "I have to repair my bicycle before the summer",
    "Das Gewächshaus ist endlich fertig gestrichen",
    "昨日は東京で美味しいラーメンを食べました",
    "我今天在北京看了一场很好的电影",
    "เมื่อวานฉันไปตลาดน้ำกับเพื่อน",
    "Вчера мы смотрели футбол до полуночи",
    "What do you have there, and what is that thing?",
    "the weather is so nice that I will do what I have to do there",
    "Is there anything that you want to tell me?",
)


@pytest.fixture
async def file(scene):
    await scene.put(*(said(number, text) for number, text in enumerate(SAID, 1)))
    await scene.put(summary(said(2), text="Ann's trains are always late, mostly those from Hamburg."))
    await scene.record()
    return scene.path


def reach(*channels, upto=MAX_ID, **more):
    return Reach(dict.fromkeys(channels, (0, upto)), **more)


def found(file, query, most=3, seen=(5,)):
    with closing(sqlite3.connect(file)) as db:
        db.row_factory = sqlite3.Row
        return [memory.text for memory in recall(db, query, reach(*seen), most)]


OLD, NEW = said(10).message_id, said(13).message_id
HIDDEN = {
    "outside of the wanted part": (said, Reach({5: (OLD, NEW)})),
    "before a reset of another channel": (
        partial(said, channel_id=6),
        Reach({5: (OLD, NEW), 6: (said(999).message_id, MAX_ID)}),
    ),
    "in a channel that the reader does not see": (partial(said, channel_id=6), Reach({5: (OLD, NEW)})),
    "by ignored people": (partial(said, author_id=78), Reach({5: (OLD, MAX_ID)}, ignored=[78])),
}


@pytest.mark.promise(558)
@pytest.mark.parametrize(("hidden", "reach"), HIDDEN.values(), ids=HIDDEN)
@pytest.mark.parametrize("most_ranked", [0, module.MAX_RANKED], ids=["the newest", "the best"])
async def test_what_the_reader_may_not_see_hides_nothing(scene, monkeypatch, hidden, reach, most_ranked):
    monkeypatch.setattr(module, "MAX_RANKED", most_ranked)
    other = hidden(200, "Bees of the old hive")
    await scene.put(*(hidden(number, "bees hive") for number in range(14, 120)))
    await scene.put(other, summary(other, text="Bees, hive, bees, hive."))
    await scene.put(said(11, "Bees of hive 11, which stand in the garden"), said(12, "The bees left hive 12 in June"))
    await scene.put(*(said(number, f"Something else, the {number}th time") for number in range(301, 801)))
    await scene.record()
    with closing(sqlite3.connect(scene.path)) as db:
        db.row_factory = sqlite3.Row
        memories = recall(db, "bees hive", reach, 8)
    assert {memory.message_id for memory in memories} == {said(11).message_id, said(12).message_id}


async def test_repetitions_and_shouts_hide_nothing(scene):
    await scene.put(*(said(number, "bees bees bees") for number in range(1, 60)))
    await scene.put(*(said(number, f"bees! {number}") for number in range(60, 120)))
    await scene.put(said(200, "The queen of the bees in the garden left her hive in June, said the neighbor"))
    await scene.put(*(said(number, f"Something else, the {number}th time") for number in range(301, 801)))
    await scene.record()
    assert any("queen" in text for text in found(scene.path, "bees queen hive", most=1))


@pytest.mark.parametrize(
    ("query", "number"),
    [
        ("tomato greenhouse", 1),
        ("What did Ann say about her purple tomato?", 1),
        ("philosophy podcasts", 3),
        ("bicycles", 4),
        ("Gewächshäuser streichen, fertig?", 5),
        ("ラーメン", 6),
        ("北京的电影", 7),
        ("ตลาดน้ำ", 8),
        ("футбол", 9),
    ],
)
async def test_what_fits_is_found_in_any_script_and_in_other_forms_of_its_words(file, query, number):
    assert found(file, query)[:1] == [SAID[number - 1]]


@pytest.mark.promise(422)
@pytest.mark.parametrize(
    "query",
    [
        "the best pizza that you have had in Naples",
        "quantum computers and what they do",
        "the marathon of the summer olympics in Tokyo",
        "a purple elephant in the zoological museum",
        "What is that?",
        "do you know the way to the cinema there",
        "政治",
        "",
        "?!",
    ],
)
async def test_a_question_off_the_subject_finds_nothing(file, query):
    assert found(file, query) == []


@pytest.mark.promise(422)
@pytest.mark.parametrize(
    "query",
    [
        '"tomatoes" OR "',
        "tomatoes AND",
        "NEAR(tomatoes",
        "terms:tomatoes",
        "tomatoes*",
        "^tomatoes",
        "-tomatoes",
        "('%",
    ],
)
async def test_no_query_is_read_as_operators(file, query):
    assert found(file, query) == ([SAID[0]] if "tomatoes" in query else [])


async def test_messages_and_summaries_are_found_alike_and_no_more_than_are_wanted(file):
    assert set(found(file, "trains from Hamburg")) == {
        SAID[1],
        "Ann's trains are always late, mostly those from Hamburg.",
    }
    assert len(found(file, "trains from Hamburg", most=1)) == 1


async def test_only_what_is_older_than_the_window_is_looked_for(file):
    with closing(sqlite3.connect(file)) as db:
        db.row_factory = sqlite3.Row
        assert recall(db, "bicycle", reach(5, upto=said(4).message_id), 3) == ()
        assert len(recall(db, "bicycle", reach(5, upto=said(4).message_id + 1), 3)) == 1


@pytest.mark.parametrize("most_ranked", [0, module.MAX_RANKED], ids=["the newest", "the best"])
async def test_only_what_is_in_the_channels_that_may_be_read_is_found(scene, monkeypatch, most_ranked):
    monkeypatch.setattr(module, "MAX_RANKED", most_ranked)
    here, there = said(1, "The bicycle is red"), said(2, "The bicycle is stolen", channel_id=6)
    await scene.put(here, there, summary(there, text="A bicycle was stolen."))
    await scene.record()
    assert found(scene.path, "bicycle") == [here.text]
    assert set(found(scene.path, "bicycle", seen=(6,))) == {there.text, "A bicycle was stolen."}
    assert found(scene.path, "bicycle", seen=(7,)) == []


async def test_of_words_that_very_many_messages_have_the_newest_are_found(scene, monkeypatch):
    monkeypatch.setattr(module, "MAX_RANKED", 2)
    await scene.put(*(said(number, f"tomatoes, day {number}") for number in range(1, 9)))
    await scene.put(*(said(number, f"something else {number}") for number in range(10, 60)))
    await scene.record()
    assert found(scene.path, "tomatoes")[0] == "tomatoes, day 8"


def test_terms_are_words_without_marks_and_pairs_where_a_script_has_no_spaces():
    assert terms("See https://x.test/a, <@123> Müller's 2 cats! 東京都") == [
        "see",
        "müller",
        "2",
        "cats",
        "東京",
        "京都",
    ]
    assert beginning("tomatoes") == "tomat"
    assert (beginning("cat"), beginning("2024")) == ("cat", "2024")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("ship", "ships", True),
        ("ship", "shipping", False),
        ("tomato", "tomatoes", True),
        ("cat", "cats", False),
        ("2024", "20245", False),
    ],
)
def test_forms_of_a_word_begin_alike(one, other, expected):
    assert (is_alike(one, other), is_alike(other, one)) == (expected, expected)
