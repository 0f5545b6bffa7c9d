"""Who owns an application, as Discord tells it."""

from types import SimpleNamespace

import pytest

from agentic.chat.directory import Directory
from agentic.services.discord.gate import Gate
from agentic.services.discord.place import KEPT_SECONDS, DiscordPlace, owners_in
from tests.support.doubles import Clock, http_error


def member(user_id, state=2, role="developer"):
    return {"membership_state": state, "user": {"id": str(user_id)}, "role": role}


@pytest.mark.parametrize(
    ("application", "owners"),
    [
        ({"owner": {"id": "5"}, "team": None}, {5}),
        ({}, set()),
        ({"owner": {"id": "99"}, "team": {"members": [member(5), member(6, role="admin")]}}, {5, 6}),
        ({"owner": {"id": "99"}, "team": {"members": [member(5, state=1), member(6, role="read_only")]}}, set()),
    ],
)
def test_the_owner_or_those_of_the_team_who_may_change_it(application, owners):
    assert owners_in(application) == owners


async def test_discord_is_asked_once_in_ten_minutes_and_what_it_said_outlives_its_outage(caplog):
    answers, asked, clock = [], 0, Clock()

    async def application_info():
        nonlocal asked
        asked += 1
        if isinstance(answer := answers.pop(0), Exception):
            raise answer
        return answer

    client = SimpleNamespace(http=SimpleNamespace(application_info=application_info), get_channel=None)
    directory = Directory()
    place = DiscordPlace(client, Gate(), SimpleNamespace(agent="claude"), None, directory, clock)
    answers += [http_error(500), {"owner": {"id": "5"}, "team": None}, http_error(500), {"owner": {"id": "6"}}]
    assert await place.owners() == frozenset()
    assert "reading the application's owners failed" in caplog.text
    assert await place.owners() == {5}
    assert await place.owners() == {5}
    assert asked == 2
    clock.now += KEPT_SECONDS
    assert await place.owners() == {5}
    assert await place.owners() == {6}
    assert directory.is_owner(6)
    assert not directory.is_owner(5)
