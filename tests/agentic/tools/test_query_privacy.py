"""What is left of a query once private details are taken out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentic.process.redaction import Redactor
from agentic.tools.private_details import without_private

PRIVATE = [
    "alice@example.com",
    "alice.b+c@mail.example.co.uk",
    "alice [at] example [dot] com",
    "alice(at)example.com",
    "alice @ example.com",
    "alice%40example.com",
    "alice at mail dot example dot com",
    "ali\u200bce@exam\u200bple.com",
    "\uff41lice\uff20example.com",
    "https://alice:pass@",
    "<@123456789012345678>",
    "<@!123456789012345678>",
    "<@&5>",
    "<#123456789012345678>",
    "<:wave:123456789012345678>",
    "@alice.b",
    "123456789012345678",
    "+49 171 1234567",
    "+1 (555) 123-4567",
    "0049 30 123456",
    "0171/1234567",
    "030 - 12 34 56 78",
    "(555) 123-4567",
    "555.123.4567",
    "DE89 3704 0044 0532 0130 00",
    "GB82WEST12345698765432",
    "4111 1111 1111 1111",
    "5500-0000-0000-0004",
    "123-45-6789",
    "\u0660\u0661\u0667\u0661\u0662\u0663\u0664\u0665\u0666\u0667\u0668",
    "3f2504e0-4f89-11d3-9a0c-0305e82c3301",
    "192.168.0.17",
    "2001:db8::ff00:42:8329",
    "00:1a:2b:3c:4d:5e",
    "12 Main Street",
    "12 Main St",
    "221b North Baker St.",
    "Hauptstraße 5a",
    "Lange Str. 17",
    "rue de Rivoli 12",
    "12 rue de Rivoli",
    "5 bis, avenue Montaigne",
    "sk-proj-abcdefghij0123456789xyz",
    "sesame-open-1234",
]
PUBLIC = [
    "weather in Oslo 2026-11-23",
    "python 3.11.4 release notes",
    "what happened on 11.09.2001",
    "olympics 1996 2000 2004 2008",
    "iPhone 17 price 1,299.00 EUR",
    "population 8,025,000,000",
    "C++20 std::format",
    "ratio 1:2:3:4 and 3:30:10",
    "rock 'n' roll 50s street food",
    "a 100 metre run in 9.58 s",
    "ISBN 978-3-16-148410-0",
    "RFC 9110 section 15.5.2",
    "route 66 map",
    "who is Ada Lovelace?",
    "Wegener plate tectonics 1912",
    "GPT-6 vs Claude 5.5",
    "5 best street food markets",
    "12 hotels St Lucia",
    "7 nights st lucia",
    "arrived at noon, dot com crash",
    "5 facts about Wall Street",
    "100 best Abbey Road songs",
    "7 habits of a court of law",
    "2 hours drive from Berlin",
]

redact = Redactor(["sesame-open-1234"]).secrets


@pytest.mark.promise(400)
@pytest.mark.parametrize("private", PRIVATE)
def test_a_private_detail_is_taken_out_and_the_rest_stays(private):
    assert without_private(f"ring {private} tomorrow", redact) in ("ring tomorrow", "ring https:// tomorrow")


@pytest.mark.parametrize("private", PRIVATE)
def test_of_a_private_detail_alone_nothing_is_left(private):
    assert without_private(private, redact) in ("", "https://")


@pytest.mark.parametrize("query", PUBLIC)
def test_what_is_nobodys_stays_as_it_is(query):
    assert without_private(query, redact) == query


STREETS = ["12 Main Street", "221b North Baker St.", "Hauptstraße 5a", "Lange Str. 17", "rue de Rivoli 12"]


@pytest.mark.parametrize("street", STREETS)
@pytest.mark.parametrize(
    "asked",
    [
        "who lives at {}",
        "{}?",
        "what is at {} and who built it?",
        "Can I visit {} today?",
        "my friend asks who is at {}",
    ],
)
def test_a_street_address_that_a_person_asks_about_stays(street, asked):
    question = asked.format(street)
    assert without_private(question, redact, asked=question) == question
    assert without_private(f"{street} history", redact, asked=question) == f"{street} history"


@pytest.mark.parametrize("street", STREETS)
@pytest.mark.parametrize(
    "said",
    [
        "I live at {}, what is near?",
        "we're now living at {}",
        "my address is {}",
        "pizza near me, {}",
        "{} is where I live",
        "{} is my house",
        "ich wohne {}",
        "my old mother lives at {}",
        "I still live at {}",
        "my girlfriend's place is {}",
        "home: {}",
        "bin zuhause, {}",
        "what is at 1 Other Street?",
        "",
    ],
)
def test_a_street_address_that_is_a_persons_own_or_that_nobody_named_is_taken_out(street, said):
    assert street not in without_private(f"pizza {street}", redact, asked=said.format(street))
    assert street not in without_private(said.format(street), redact, asked=said.format(street))


@pytest.mark.parametrize(
    ("asked", "query"),
    [
        ("who lives at 10 Downing St?", "10 Downing Street residents"),
        ("is 1600 Pennsylvania Avenue open?", "1600 Pennsylvania Ave. visitors"),
        ("was ist in der Friedrichstr. 43?", "Friedrichstraße 43 Berlin"),
        ("was ist in der Friedrichstrasse 43?", "Friedrichstr. 43 Berlin"),
    ],
)
def test_an_address_that_a_person_asks_about_stays_if_the_model_spells_it_differently(asked, query):
    assert without_private(query, redact, asked=asked) == query
    assert without_private(query, redact, asked=f"I live there: {asked}") != query


def test_what_a_person_asks_about_is_still_private_if_it_is_no_street():
    asked = "who is alice@example.com, +49 171 1234567, 4111 1111 1111 1111?"
    assert without_private(asked, redact, asked=asked) == "who is , , ?"


def test_a_query_is_one_line_of_words():
    assert without_private(" tall\n trees\x00 \t and  shrubs ") == "tall trees and shrubs"
    assert [without_private(text) for text in ("", " ", "?!", "<@5> ,")] == [""] * 4


@given(st.text(max_size=200))
def test_a_second_look_finds_nothing_more(text):
    once = without_private(text, redact)
    assert without_private(once, redact) == once or len(without_private(once, redact)) < len(once)
    assert "\n" not in once


@given(st.text(alphabet="0123456789 .-/()+@<>ab", max_size=3000))
def test_any_run_of_digits_is_read_in_time(text):
    without_private(text, redact)
