from hypothesis import given
from hypothesis import strategies as st

from agentic.ids import EPOCH_MS, is_snowflake
from agentic.services.signal import envelopes as ids

NOW = 1_795_000_000_000  # a time of 2026, in milliseconds
PEOPLE = st.integers(0, 2**63 - 1)
TIMES = st.integers(EPOCH_MS, EPOCH_MS + 2**41 - 1)


@given(PEOPLE, TIMES)
def test_the_time_of_a_message_is_read_from_its_number(author, timestamp):
    message = ids.message_id(author, timestamp)
    assert ids.timestamp_of(message) == timestamp
    assert message in ids.ids_at(timestamp)
    assert 0 <= message < 2**63


@given(PEOPLE, PEOPLE, TIMES, TIMES)
def test_messages_sort_by_time_whoever_wrote_them(one, other, first, second):
    if first < second:
        assert ids.message_id(one, first) < ids.message_id(other, second)


def test_two_people_in_one_millisecond_have_messages_of_their_own():
    assert ids.message_id(1, NOW) != ids.message_id(2, NOW)
    assert ids.message_id(1, NOW) == ids.message_id(1, NOW)


@given(st.text(max_size=40), PEOPLE)
def test_people_and_chats_have_numbers_that_no_snowflake_has(address, person):
    for number in (
        ids.person_id(address),
        ids.direct_chat_id(address, person),
        ids.group_chat_id(address),
    ):
        assert 2**62 <= number < 2**63
        assert not is_snowflake(number)


def test_a_person_is_not_their_chat_and_two_accounts_have_two_chats_with_them():
    person = ids.person_id("+4915111111111")
    first, second = (ids.direct_chat_id(account, person) for account in ("+4915122222222", "+4915133333333"))
    assert len({person, first, second, ids.group_chat_id("+4915122222222")}) == 4


def test_times_that_no_message_can_have_break_nothing():
    for timestamp in (-1, 0, 2**63, 2**80):
        assert 0 <= ids.message_id(1, timestamp) < 2**63


def test_a_log_line_shows_two_characters_of_an_address():
    assert ids.mask_address("+4915112345678") == "…78"
