from hypothesis import given
from hypothesis import strategies as st

from agentic.ids import EPOCH_MS, MAX_ID, id_at, is_snowflake, sent_at

EXAMPLE = 175928847299117063  # of discord.com/developers/docs/reference#snowflakes: 2016-04-30 11:18:25.796 UTC


def test_a_message_tells_when_it_was_sent():
    assert sent_at(EXAMPLE) == 1462015105.796


def test_messages_of_one_millisecond_have_the_ids_from_its_first_on():
    assert id_at(1462015105.796) <= EXAMPLE < id_at(1462015105.797)


@given(st.integers(EPOCH_MS, EPOCH_MS + 2**41 - 1))
def test_a_time_comes_back_from_its_id(milliseconds):
    assert sent_at(id_at(milliseconds / 1000)) == milliseconds / 1000


@given(st.integers() | st.just(2**200))
def test_a_number_that_no_message_has_counts_as_the_nearest_one(number):
    assert sent_at(0) <= sent_at(number) <= sent_at(MAX_ID)


@given(st.floats(-1e12, 1e12))
def test_a_time_that_no_message_has_counts_as_the_nearest_one(seconds):
    assert 0 <= id_at(seconds) <= MAX_ID


def test_a_snowflake_of_today_is_discords():
    assert is_snowflake(1_430_000_000_000_000_000)
