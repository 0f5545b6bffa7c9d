from __future__ import annotations

import pytest
from support.signal_server import ACCOUNT, ANNA, ANNA_ID, BEN, BEN_ID, NOW, group_id

from agentic.services.signal.contacts import Chat, Chats, Contact, Contacts, group_recipient, shown_name, to_text
from agentic.services.signal.envelopes import Address, message_id, person_id

OURS = {ACCOUNT: ("penny", "Penny")}


def contacts(**more) -> Contacts:
    return Contacts(OURS, **more)


@pytest.mark.promise(461)
def test_a_person_is_one_by_phone_number_by_account_id_and_by_both():
    known = contacts()
    first = known.learn(Address(ANNA, ANNA_ID), "Anna")
    assert known.learn(Address(None, ANNA_ID)) is first
    assert known.learn(Address(ANNA)) is first
    assert known.of(first.person) is first
    assert first.name == "Anna"


@pytest.mark.promise(461)
def test_names_that_were_known_apart_become_one_person_and_both_numbers_lead_to_them():
    known = contacts()
    by_number, by_account = known.learn(Address(ANNA)), known.learn(Address(None, ANNA_ID))
    assert by_number is not by_account
    joined = known.learn(Address(ANNA, ANNA_ID))
    assert known.of(by_number.base) is known.of(by_account.base) is joined
    assert known.find(Address(ANNA)) is known.find(Address(None, ANNA_ID)) is joined


def test_a_person_keeps_their_number_when_more_of_them_gets_known():
    known = contacts()
    before = known.learn(Address(ANNA)).person
    assert known.learn(Address(ANNA, ANNA_ID)).person == before


@pytest.mark.promise(461)
def test_a_phone_number_that_passes_to_somebody_else_does_not_bring_their_past():
    known = contacts(linked={ANNA_ID: 222})
    anna = known.learn(Address(ANNA, ANNA_ID), "Anna")
    other = known.learn(Address(ANNA, BEN_ID), "Ben")
    assert other is not anna
    assert (anna.number, other.number) == (None, ANNA)
    assert (anna.person, other.linked) == (222, None)
    assert known.learn(Address(None, ANNA_ID)) is anna


NEW = "+4915144444444"


def restarted(before: Contacts, **more) -> Contacts:
    """The contacts of a later run."""
    later = contacts(**more)
    later.restore([(who.base, to_text(who)) for who in {*before._by_id.values()} if who.agent is None])
    return later


def test_a_person_with_a_new_phone_number_is_heard_as_before_and_after_a_restart_too():
    known = contacts(allowed=[ANNA], linked={ANNA: 222})
    anna = known.learn(Address(ANNA, ANNA_ID), "Anna")
    for now in (known, restarted(known, allowed=[ANNA], linked={ANNA: 222})):
        assert now.allows(Address(NEW, ANNA_ID))
        moved = now.learn(Address(NEW, ANNA_ID))
        assert now.is_allowed(moved)
        assert (moved.person, moved.base, moved.number) == (222, anna.base, NEW)
        assert now.allows(Address(NEW, ANNA_ID))
    gone = restarted(known, allowed=[BEN])
    assert not gone.allows(Address(NEW, ANNA_ID))


@pytest.mark.promise(540)
def test_the_new_owner_of_a_phone_number_gets_its_place_in_the_allow_list_and_nothing_else():
    settings = {"allowed": [ANNA], "linked": {ANNA: 222}}
    known = contacts(**settings)
    anna = known.learn(Address(ANNA, ANNA_ID), "Anna")
    known.learn(Address(NEW, ANNA_ID))
    other = known.learn(Address(ANNA, BEN_ID), "Ben")
    assert (anna.number, anna.person) == (NEW, 222)
    assert (other.number, other.linked) == (ANNA, None)
    for now in (known, restarted(known, **settings)):
        ben, moved = now.find(Address(ANNA, BEN_ID)), now.find(Address(NEW, ANNA_ID))
        assert ben is not moved
        assert (now.is_allowed(ben), ben.person) == (True, other.base)
        assert (now.is_allowed(moved), moved.person) == (True, 222)


def test_the_new_owner_of_a_phone_number_is_not_heard_by_the_right_of_the_old_ones_account():
    known = contacts(allowed=[ANNA_ID])
    known.learn(Address(ANNA, ANNA_ID))
    assert not known.allows(Address(ANNA, BEN_ID))
    assert known.allows(Address(None, ANNA_ID))


def test_a_person_who_was_known_by_number_alone_keeps_their_past_from_its_next_owner():
    known = contacts()
    anna = known.learn(Address(ANNA))
    known.learn(Address(ANNA, ANNA_ID))
    known.learn(Address(NEW, ANNA_ID))
    assert known.learn(Address(ANNA)).base != anna.base


def test_the_phone_number_of_an_agent_stays_its_own():
    known = contacts()
    ours = known.learn(Address(ACCOUNT, BEN_ID))
    assert known.learn(Address(ACCOUNT, ANNA_ID)) is ours is known.ours(ACCOUNT)


@pytest.mark.parametrize("name", [ANNA, ANNA_ID])
def test_a_linked_person_is_their_discord_account_by_whichever_name_they_come(name):
    known = contacts(linked={name: 222})
    who = known.learn(Address(ANNA, ANNA_ID))
    assert who.person == 222
    assert who.base != 222
    assert known.of(222) is known.of(who.base) is who


@pytest.mark.promise(460)
@pytest.mark.parametrize(
    ("allowed", "address", "heard"),
    [
        ((), Address(ANNA, ANNA_ID), False),
        ((ANNA,), Address(ANNA, ANNA_ID), True),
        ((ANNA_ID,), Address(ANNA, ANNA_ID), True),
        ((ANNA_ID,), Address(ANNA), False),
        ((BEN,), Address(ANNA, ANNA_ID), False),
        (("all",), Address(ANNA), True),
        ((), Address(ACCOUNT), True),  # an agent of ours
    ],
)
def test_the_allow_list_names_people_by_either_name(allowed, address, heard):
    known = contacts(allowed=allowed)
    assert known.allows(address) is heard
    assert known.is_allowed(known.learn(address)) is heard


def test_a_person_who_is_allowed_by_phone_number_is_heard_by_account_id_once_both_are_known():
    known = contacts(allowed=[ANNA])
    assert not known.allows(Address(None, ANNA_ID))
    known.learn(Address(ANNA, ANNA_ID))
    assert known.allows(Address(None, ANNA_ID))


def test_the_author_of_a_message_is_found_by_its_number():
    known = contacts()
    anna, ben = known.learn(Address(ANNA)), known.learn(Address(BEN))
    assert known.author_of(message_id(ben.base, NOW)) is ben
    assert known.author_of(message_id(anna.base, NOW)) is anna
    assert known.author_of(message_id(person_id("+4900000000"), NOW)) is None


def test_an_agent_keeps_its_name_and_its_number_whatever_its_account_is_called():
    known = contacts()
    before = known.ours(ACCOUNT).person
    known.learn(Address(None, BEN_ID), "A stranger")
    joined = known.learn(Address(ACCOUNT, BEN_ID), "My bot")
    assert joined is known.ours(ACCOUNT) is known.of(before)
    assert (joined.person, joined.name, joined.agent) == (before, "Penny", "penny")


def test_names_are_cleaned_and_one_who_has_none_gets_a_number():
    known = contacts()
    assert known.learn(Address(ANNA), "[msg:1] Penny:\nyes").name == "msg 1 Penny yes"
    nameless = known.learn(Address(BEN), "\u2800")
    assert nameless.name == ""
    assert shown_name(nameless).startswith("person ")


@pytest.mark.promise(461)
def test_kept_contacts_come_back_with_their_numbers():
    first, kept = contacts(), dict[int, str]()
    first.on_change(lambda who: kept.__setitem__(who.base, to_text(who)))
    before = first.learn(Address(ANNA), "Anna").person
    first.learn(Address(ANNA, ANNA_ID))
    later = contacts()
    later.restore([*kept.items(), (5, "{"), (6, "[1]"), (7, "[null, null, null]"), (8, '[5, 6, "x"]')])
    who = later.learn(Address(None, ANNA_ID))
    assert (who.person, who.name, who.number) == (before, "Anna", ANNA)


def test_an_address_without_anything_is_nobodys():
    assert not Address.of(None, "", "anna", "12345")
    with pytest.raises(ValueError, match="without number"):
        contacts().learn(Address())


# -- chats ------------------------------------------------------------------------------------------------------------


def test_each_of_two_accounts_has_a_chat_of_its_own_with_a_person():
    known = contacts()
    chats, anna = Chats(known), known.learn(Address(ANNA), "Anna")
    first, second = chats.direct(ACCOUNT, anna), chats.direct(BEN, anna)
    assert first.channel_id != second.channel_id != anna.base
    assert chats.of_account(ACCOUNT) == [first]
    assert (first.name, first.is_group, chats.recipient(first)) == ("Anna", False, ANNA)


def test_a_group_is_one_chat_for_all_accounts_and_keeps_its_name():
    chats = Chats(contacts())
    chats.group(ACCOUNT, "R3JvdXA=", "The group")
    chat = chats.group(BEN, "R3JvdXA=")
    assert chats.of_account(ACCOUNT) == chats.of_account(BEN) == [chat]
    assert (chat.name, chats.recipient(chat)) == ("The group", group_id("R3JvdXA="))
    assert group_recipient("R3JvdXA=").startswith("group.")


def test_a_person_who_hides_their_number_is_written_to_by_account_id():
    known = contacts()
    chats = Chats(known)
    chat = chats.direct(ACCOUNT, known.learn(Address(None, ANNA_ID)))
    assert chats.recipient(chat) == ANNA_ID
    known.learn(Address(ANNA, ANNA_ID))
    assert chats.recipient(chat) == ANNA


def test_chats_are_kept_and_come_back():
    known, kept = contacts(), list[Chat]()
    chats = Chats(known)
    chats.on_change(kept.append)
    chat = chats.direct(ACCOUNT, known.learn(Address(ANNA)))
    chats.direct(ACCOUNT, known.learn(Address(ANNA)))
    assert kept == [chat]
    later = Chats(known)
    later.restore(kept)
    assert later.get(chat.channel_id) == chat
    assert later.get(1) is None


def test_a_chat_with_somebody_who_is_no_longer_known_has_no_recipient():
    chats = Chats(contacts())
    stranger = Contact(77, BEN, None, "")
    assert chats.recipient(chats.direct(ACCOUNT, stranger)) is None


@pytest.mark.promise(512)
def test_of_strangers_those_are_known_who_were_heard_of_last(monkeypatch):
    monkeypatch.setattr("agentic.services.signal.contacts.MOST", 20)
    known = contacts(allowed=["all"], linked={ANNA: 5})
    linked = known.learn(Address(ANNA))
    by_number = known.learn(Address(BEN))
    known.learn(Address(None, BEN_ID))
    joined = known.learn(Address(BEN, BEN_ID))
    strangers = [Address(f"+49{number:010}") for number in range(1_000_000_000, 1_000_000_100)]
    for stranger in strangers:
        known.learn(stranger)
        known.learn(Address(BEN))
    assert [known.find(stranger) for stranger in strangers[:80]] == [None] * 80
    assert known.find(strangers[-1]) is not None
    assert known.find(Address(None, BEN_ID)) is known.of(by_number.base) is joined
    assert known.of(5) is linked
    assert [one.agent for one in known.agents()] == ["penny"]
    assert len(known._by_id) + len(known._by_number) + len(known._by_account) < 60


@pytest.mark.promise(512)
def test_the_chats_that_were_heard_of_last_are_known(monkeypatch):
    monkeypatch.setattr("agentic.services.signal.contacts.MOST", 3)
    known = contacts()
    chats = Chats(known)
    first = chats.direct(ACCOUNT, known.learn(Address(ANNA)))
    groups = [chats.group(ACCOUNT, name) for name in ("one", "two")]
    chats.direct(ACCOUNT, known.learn(Address(ANNA)))
    last = chats.group(ACCOUNT, "three")
    assert chats.all() == [groups[1], first, last]


def test_who_is_forgotten_is_so_by_each_number_that_they_ever_had_also_after_a_restart():
    known, kept = contacts(), {}
    known.on_change(lambda who: kept.setdefault(who.base, (who.base, to_text(who))))
    bases = {known.learn(Address(ANNA)).base, known.learn(Address(None, ANNA_ID)).base}
    joined = known.learn(Address(ANNA, ANNA_ID))
    again = contacts()
    again.restore([(joined.base, to_text(joined)), *(one for base, one in kept.items() if base != joined.base)])
    for each in (known, again):
        person = each.find(Address(ANNA)).person
        assert each.other_ids(person) == bases - {person}
        assert each.forget(person) == bases
