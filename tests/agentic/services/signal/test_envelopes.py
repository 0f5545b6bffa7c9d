from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.signal_server import ACCOUNT, ANNA, ANNA_ID, BEN, BEN_ID, NOW, said

from agentic.services.signal.contacts import Contacts
from agentic.services.signal.envelopes import Address, Mention, read_envelope
from agentic.services.signal.messages import read_words

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = [
    "message",
    "timestamp",
    "quote",
    "reaction",
    "attachments",
    "mentions",
    "groupInfo",
    "remoteDelete",
    "viewOnce",
]


def read(**fields):
    envelope = {**said(ANNA, NOW, "hi"), **fields}
    return read_envelope(json.dumps({"envelope": envelope, "account": ACCOUNT}))


@pytest.mark.parametrize(
    "frame", ["", "{", "[]", "null", "5", '"x"', "{}", '{"envelope": 5}', '{"error": "no"}', "[" * 9999]
)
def test_what_is_no_envelope_is_none(frame):
    assert read_envelope(frame) is None


def test_a_frame_of_json_rpcs_own_shape_is_read_too():
    found = read_envelope(json.dumps({"method": "receive", "params": {"envelope": said(ANNA, NOW, "hi")}}))
    assert found is not None
    assert found.who == Address(ANNA, ANNA_ID)


def test_half_a_character_becomes_a_sign_that_can_be_written_down():
    file = {"id": "a.png", "filename": "cat\ud800.png"}
    data = {**said(ANNA, NOW, "hi \udc00")["dataMessage"], "attachments": [file]}
    found = read(dataMessage=data, sourceName="A\ud800")
    assert (found.source_name, found.data_message.message) == ("A\ufffd", "hi \ufffd")
    assert found.data_message.attachments[0].filename == "cat\ufffd.png"


@pytest.mark.promise(463)
@pytest.mark.parametrize("odd", FIELDS)
@settings(max_examples=30)
@given(value=JSON)
def test_an_odd_part_is_skipped_and_the_words_are_read(odd, value):
    data = {**said(ANNA, NOW, "hi")["dataMessage"], odd: value}
    found = read(dataMessage=data)
    assert found is not None
    assert found.data_message is not None
    if odd != "message":
        assert found.data_message.message == "hi"


@pytest.mark.promise(463)
@given(JSON)
def test_nothing_that_comes_raises(value):
    read_envelope(json.dumps(value))
    read_envelope(json.dumps({"envelope": value}))


def test_an_odd_attachment_does_not_lose_the_others():
    good = {"id": "a1.jpg", "contentType": "image/jpeg", "size": 5, "filename": None}
    data = {
        **said(ANNA, NOW, "hi")["dataMessage"],
        "attachments": [5, good, {"id": "../x"}, {"id": None}, {"id": ".h"}],
    }
    found = read(dataMessage=data)
    assert found is not None
    assert found.data_message is not None
    assert [file.id for file in found.data_message.attachments] == [None, "a1.jpg", None, None, None]


def test_receipts_typing_and_what_other_devices_send_hold_no_message():
    head = {key: value for key, value in said(ANNA, NOW, "hi").items() if key != "dataMessage"}
    for more in (
        {"receiptMessage": {"when": NOW, "isDelivery": True, "timestamps": [NOW]}},
        {"typingMessage": {"action": "STARTED", "timestamp": NOW}},
        {"syncMessage": {"sentMessage": {"message": "mine", "timestamp": NOW, "destination": ANNA}}},
        {"callMessage": {"offerMessage": {"id": 1}}},
        {"storyMessage": {"allowsReplies": True}},
    ):
        found = read_envelope(json.dumps({"envelope": {**head, **more}}))
        assert found is not None
        assert found.data_message is found.edit_message is None


# -- words ------------------------------------------------------------------------------------------------------------


def words(text: str, *mentions: Mention):
    contacts = Contacts({ACCOUNT: ("penny", "Penny")})
    contacts.learn(Address(ANNA, ANNA_ID), "Anna")
    return contacts, read_words(text, mentions, contacts)


def test_a_mention_becomes_a_name_counted_in_utf16_units():
    contacts, found = words(
        "👋 \ufffc and \ufffc!",
        Mention(start=3, length=1, uuid=ANNA_ID),
        Mention(start=9, length=1, number=ACCOUNT),
    )
    assert found.shown == "👋 @Anna and @Penny!"
    assert found.mentions == {contacts.learn(Address(ANNA)).person, contacts.ours(ACCOUNT).person}
    assert found.bare == "👋  and !"


@pytest.mark.parametrize("text", ["@Penny hi", "hi @penny, you?", "Penny: hi", "penny hi", "  Penny!"])
def test_an_agent_is_called_by_its_typed_name(text):
    contacts, found = words(text)
    assert found.mentions == {contacts.ours(ACCOUNT).person}
    assert found.shown == text


@pytest.mark.parametrize("text", ["a penny saved", "Pennywise", "mail@penny.example", "@Pennyroyal", "hi"])
def test_a_name_elsewhere_calls_nobody(text):
    assert words(text)[1].mentions == frozenset()


def test_a_mention_that_lies_beyond_the_text_or_over_another_one_is_ignored():
    _, found = words("a \ufffc", Mention(start=2, length=1, uuid=ANNA_ID), Mention(start=1, length=2, uuid=BEN_ID))
    assert found.shown == "a @Anna"
    _, found = words("ab", Mention(start=1, length=9, uuid=ANNA_ID))
    assert found.shown == "ab"


def test_a_mention_of_nobody_known_is_someone():
    assert words("hi \ufffc", Mention(start=3, length=1, number=BEN))[1].shown == "hi @someone"
    assert words("hi \ufffc")[1].shown == "hi @someone"  # some releases of signal-cli leave the mention out
