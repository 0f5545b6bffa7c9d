from types import SimpleNamespace

import pytest

from agentic.chat.transcript import Transcript
from agentic.context.entries import Entry, Speaker
from agentic.services.discord.mentions import to_markup, to_names
from tests.support.doubles import ALICE, GUILD, Client, Clock, Snowflakes, TextChannel, user


class Emoji(SimpleNamespace):
    def __str__(self):
        return f"<{'a' if self.animated else ''}:{self.name}:{self.id}>"


def naming():
    guild, ids = Client(user(21, "Claude", bot=True)).guild, Snowflakes(Clock())
    general, chat, secret = (
        TextChannel(number, guild, name, ids)
        for number, name in ((31, "general"), (32, "general-chat"), (33, "secret"))
    )
    secret.permissions.update(view_channel=False)
    guild.channels = [general, chat, secret]
    guild.roles = [
        SimpleNamespace(id=GUILD, name="@everyone"),
        SimpleNamespace(id=41, name="Moderators"),
        SimpleNamespace(id=42, name="Grok"),
    ]
    guild.emojis = (
        Emoji(id=51, name="party", animated=True, available=True),
        Emoji(id=52, name="Wave", animated=False, available=True),
        Emoji(id=53, name="lost", animated=False, available=False),
    )
    transcript = Transcript(31)
    transcript.add(Entry(1, Speaker(ALICE, "Alice", "person"), "hi", 1.0))
    transcript.add(Entry(2, Speaker(900, "Ada", "stranger", webhook=True), "hi", 1.0))
    return general, transcript, {"Grok": 22}


@pytest.mark.parametrize(
    ("written", "sent"),
    [
        ("@Alice and @Grok", f"<@{ALICE}> and <@22>"),
        ("@Moderators", "<@&41>"),
        ("@everyone @here", "@everyone @here"),
        ("@Ada is a webhook", "@Ada is a webhook"),
        ("see #general, not #general-chat", "see <#31>, not <#32>"),
        ("#General-Chat", "<#32>"),
        ("#general-", "<#31>-"),
        ("# general", "# general"),
        ("#secret #nowhere", "#secret #nowhere"),
        ("https://x.org/#general", "https://x.org/#general"),
        (":party: :Wave:", "<a:party:51> <:Wave:52>"),
        (":lost: :wave: :smile:", ":lost: :wave: :smile:"),
        ("<:Wave:52> stays", "<:Wave:52> stays"),
        ("`:party: #general @Alice`", "`:party: #general @Alice`"),
        ("at 12:party:30", "at 12:party:30"),
    ],
)
def test_names_become_markup_where_they_are_known(written, sent):
    assert to_markup(written, *naming()) == sent


def test_what_was_read_is_written_the_same():
    markup = f"<@{ALICE}> in <#31> with <@&41> <a:party:51> <:Wave:52>"
    shown = to_names(markup, {ALICE: "Alice"}, {31: "general"}, {41: "Moderators"})
    assert shown == "@Alice in #general with @Moderators :party: :Wave:"
    assert to_markup(shown, *naming()) == markup
