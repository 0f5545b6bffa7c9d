from agentic.context.entries import Reaction, Speaker
from agentic.context.history import holder_of, join_consecutive
from agentic.context.prompt import prepare_entries
from tests.support.said import ALICE, CLAUDE, GROK, PICTURE, ids, said


def test_consecutive_messages_of_one_bot_are_one_under_the_first_ones_id():
    (entry,) = join_consecutive([said(1, CLAUDE, "one "), said(2, CLAUDE, ""), said(3, CLAUDE, "two")])
    assert (entry.id, entry.text, ids(entry.units)) == (1, "one two", [1, 2, 3])


def test_people_and_different_bots_are_not_joined():
    entries = [said(1, ALICE), said(2, ALICE), said(3, CLAUDE), said(4, GROK), said(5, CLAUDE)]
    assert join_consecutive(entries) == entries
    hooks = [said(6, Speaker(9, "Owl", "stranger")), said(7, Speaker(9, "Fox", "stranger"))]
    assert join_consecutive(hooks) == hooks


def test_an_agent_is_itself_by_whichever_account_it_speaks():
    record = said(2, Speaker(0, "Claude", "agent", "claude"))
    assert ids(join_consecutive([said(1, CLAUDE), record])) == [1]


def test_a_hidden_message_between_does_not_part_them_and_a_shown_one_does():
    between = said(2, ALICE, ".aside", hidden=True)
    assert ids(prepare_entries([said(1, CLAUDE), between, said(3, CLAUDE)])) == [1]
    assert ids(prepare_entries([said(1, CLAUDE), said(2, ALICE), said(3, CLAUDE)])) == [1, 2, 3]


def test_files_and_reactions_are_united_and_the_later_ids_still_lead_to_it():
    one = said(1, CLAUDE, reactions=(Reaction("🔥", ("Bob",), 1),), reply_to=90)
    two = said(2, CLAUDE, reactions=(Reaction("🔥", ("Ann", "Bob"), 2), Reaction("💯")), attachments=(PICTURE,))
    entry, answer = join_consecutive([one, two, said(3, ALICE, reply_to=2)])
    assert entry.reactions == (Reaction("🔥", ("Bob", "Ann"), 3), Reaction("💯"))
    assert (entry.attachments, entry.reply_to, answer.reply_to) == ((PICTURE,), 90, 1)
    assert holder_of([entry, answer], 2) is entry
    assert holder_of([entry, answer], 9) is None


def test_agents_stand_under_their_channel_names_and_people_under_their_own():
    entries = prepare_entries(
        [said(1, Speaker(3, "Claude Nick", "agent", "claude")), said(2, ALICE)], {"claude": "Claude"}
    )
    assert [entry.speaker.name for entry in entries] == ["Claude", "Alice"]
