"""Properties of the specification of the gateway: whose message is a prompt, and what the prompt is."""

import re
from types import SimpleNamespace

import discord
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from agent_cogs.slash import read_interaction
from agentic.chat.directory import strip_mention
from agentic.chat.formatting import question_text, read_question
from agentic.inbox.triggers import detect_call
from agentic.services.discord.messages import incoming_message
from tests.support.doubles import Client, TextChannel, message, user

ME = 21
ID = st.integers(1, 2**63)
MARKUP = st.sampled_from(["<@77>", "<@!77>", "<#12>", "<:sun:9>", "<3", "<", ">", "@Claude", "\n", " ", ", ", "`<@1`"])
WORDS = st.lists(st.text(max_size=60) | MARKUP, max_size=5).map("".join)


# Feature: discord-claude-gateway, Property 3: For any Discord message containing a bot mention and arbitrary surrounding text, the prompt extraction function should return the message text with the mention removed and leading/trailing whitespace trimmed.  # noqa: E501
@settings(max_examples=300, deadline=None)
@given(before=WORDS, after=WORDS, me=ID, form=st.sampled_from(["<@{}>", "<@!{}>", "@Bot-{}"]))
@example(before="", after=" ,", me=1, form="<@{}>")  # Discord itself puts a blank behind a mention that it completes
@example(before="a ", after=" , b", me=1, form="<@{}>")
@example(before="", after="  a\n\n  b", me=1, form="<@{}>")
def test_a_mention_is_removed_and_the_rest_is_trimmed(before, after, me, form):
    """In the form in which Discord sends a mention, and in that in which the transcript, from which a turn takes the
    prompt, tells it. Deviation: the gap closes where the mention stood, by the blanks on one of its sides, and a comma
    or colon behind one that begins the message goes with it. Every other character stays as it is."""
    mention = form.format(me)
    assume(form.endswith(">") or not re.match(r"\w", after))  # else it is a longer name
    assume(f"{before}{mention}{after}".count(mention) == 1)
    prompt = strip_mention(f"{before}{mention}{after}", (mention,))
    gone = {before + after.lstrip(" \t"), before.rstrip(" \t") + after}
    if not before.strip() and (comma := re.match(r"[ \t]*[,:](?=\s|\Z)", after)):
        gone = {after[comma.end() :]}
    assert prompt in {rest.strip() for rest in gone}


@given(
    words=st.text(alphabet="abc", min_size=1), more=st.text(alphabet="abc", min_size=1), blanks=st.sampled_from(" \t")
)
def test_no_gap_is_left_where_a_mention_stood(words, more, blanks):
    assert strip_mention(f"{words}{blanks}<@1>{blanks}{more}", ("<@1>",)) == f"{words}{blanks}{more}"


def interaction(prompt):
    options = [{"name": "agent", "type": 3, "value": "claude"}, {"name": "prompt", "type": 3, "value": prompt}]
    return SimpleNamespace(
        id=1,
        type=discord.InteractionType.application_command,
        data={"name": "ask", "type": 1, "options": options},
        user=user(5, "Ann"),
        channel_id=10,
        guild_id=1,
        channel=None,
    )


# Feature: discord-claude-gateway, Property 4: For any slash command interaction with a prompt option value, the prompt extraction function should return exactly the option value as the prompt text.  # noqa: E501
@settings(max_examples=200, deadline=None)
@given(prompt=st.text(min_size=1, max_size=2000), agent=ID)
def test_a_commands_prompt_is_exactly_its_option(prompt, agent):
    """The command is `/ask agent prompt`. Its question is shown in the channel and read from there, as exactly (Discord
    itself trims white space at the ends of what is shown)."""
    assert read_interaction(interaction(prompt)).values["prompt"] == prompt
    assert read_question(question_text(agent, prompt)) == (agent, prompt)


# Feature: discord-claude-gateway, Property 5: For any Discord message where the author has the bot flag set, the gateway should not process it as a prompt. Conversely, for any message from a non-bot user that mentions the bot, the gateway should process it.  # noqa: E501
@settings(max_examples=150, deadline=None)
@given(text=WORDS, author=st.integers(22, 2**62), bot=st.booleans(), webhook=st.booleans())
def test_bots_call_nobody_and_whoever_else_mentions_the_bot_does(text, author, bot, webhook):
    """A webhook is a bot here. That one of our own agents calls another one is decided elsewhere, by its id."""
    client = Client(user(ME, "Claude", bot=True))
    channel = TextChannel(10, client.guild, "lounge", iter(range(1, 9)).__next__)
    more = {"webhook_id": str(author)} if webhook else {}
    made = message(channel, 1, f"<@{ME}> {text}", author=author, bot=bot, mentions=[client.user], **more)
    call = detect_call(incoming_message(made), me=ME, bots_role=None)
    assert (call is None) == (bot or webhook)
