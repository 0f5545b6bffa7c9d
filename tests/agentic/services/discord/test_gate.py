import asyncio
import inspect
import io
import random
from contextlib import nullcontext, suppress
from types import SimpleNamespace
from unittest.mock import MagicMock

import aiohttp
import discord
import pytest

from agentic.process.redaction import REDACTED, Redactor
from agentic.services.discord.gate import (
    TYPING_SECONDS,
    Extras,
    Gate,
    GateClosed,
    OutboundShared,
    Silenced,
    fit,
    nonce,
    pings,
)
from agentic.services.discord.rate_limit import WINDOW, WINDOW_SECONDS, RefusedRequests, RequestWindow
from agentic.state.leases import ConditionalLease
from tests.support.doubles import Client, Clock, LoopTime, Snowflakes, TextChannel, http_error, settle, user


def a_channel(channel_id=100):
    client = Client(user(21, "Claude", bot=True))
    return TextChannel(channel_id, client.guild, "lounge", Snowflakes(Clock()))


async def send(gate, channel, number):
    await gate.send(channel, str(number), nonce=nonce("t", number))


@pytest.mark.promise(56)
async def test_no_more_than_50_requests_arrive_in_any_second_and_all_pass_in_their_order():
    loop, window, rng = LoopTime(), RequestWindow(), random.Random(3)
    passed = []

    async def enter(number):
        await window.enter()
        passed.append((number, loop.now))

    tasks = []
    for number in range(200):
        tasks.append(asyncio.create_task(enter(number)))
        if rng.random() < 0.1:
            await loop.run(rng.random() / 3, step=0.05)
    await loop.run(6, step=0.05)
    assert [number for number, _ in passed] == list(range(200))
    times = [time for _, time in passed]
    arrivals = sorted(time + rng.random() * 0.05 for time in times)  # some take longer on their way
    assert all(later - earlier > 0.999 for earlier, later in zip(arrivals, arrivals[50:], strict=False))
    assert times[-1] - times[0] < 6


async def test_fifty_posts_together_wait_for_nothing():
    loop, window = LoopTime(), RequestWindow()
    waiting = [asyncio.create_task(window.enter()) for _ in range(51)]
    await settle()
    assert [task.done() for task in waiting] == [True] * 50 + [False]
    await loop.run(WINDOW_SECONDS, step=0.05)
    assert [task.result() for task in waiting] == [False] * 50 + [True]  # whether it waited


@pytest.mark.promise(56)
async def test_posts_reactions_and_history_share_one_window():
    loop, gate, channel = LoopTime(), Gate(RequestWindow(limit=3)), a_channel()
    waiting = [
        asyncio.create_task(work)
        for work in (
            send(gate, channel, 1),
            gate.react(channel.get_partial_message(5), "🔥"),
            gate.history(channel, 10, None),
            send(gate, channel, 2),
        )
    ]
    await settle()
    assert [task.done() for task in waiting] == [True, True, True, False]
    await loop.run(WINDOW_SECONDS)
    assert waiting[3].done()


async def test_one_that_gives_up_waiting_takes_nobodys_place():
    loop, window = LoopTime(), RequestWindow(limit=1)
    await window.enter()
    first, second = asyncio.create_task(window.enter()), asyncio.create_task(window.enter())
    await settle()
    first.cancel()
    await loop.run(WINDOW_SECONDS)
    assert (first.cancelled(), second.done()) == (True, True)


async def test_it_is_not_quiet_while_a_request_waits_in_line():
    loop, window = LoopTime(), RequestWindow(limit=1)
    await window.enter()
    waiting = asyncio.create_task(window.enter())
    await settle()
    loop.now += window.seconds
    assert not window.is_quiet(1.0)
    await loop.run(window.seconds)
    assert waiting.done()
    loop.now += window.seconds
    assert window.is_quiet(1.0)


async def test_typing_is_shown_at_most_once_in_eight_seconds_a_channel():
    loop, gate, lounge, debate = LoopTime(), Gate(), a_channel(1), a_channel(2)
    for channel in (lounge, lounge, debate, lounge):
        await gate.typing(channel, channel.id)
    assert (lounge.typed, debate.typed) == (1, 1)
    await loop.run(TYPING_SECONDS - 0.1)
    await gate.typing(lounge, 1)
    assert lounge.typed == 1
    await loop.run(0.1)
    await gate.typing(lounge, 1)
    assert lounge.typed == 2


async def test_typing_is_dropped_first_when_requests_are_many_and_never_waits():
    loop, gate, channel = LoopTime(), Gate(RequestWindow(limit=4)), a_channel()
    for number in (1, 2):
        await send(gate, channel, number)
    await gate.typing(channel, 100)
    assert channel.typed == 0
    for number in (3, 4):
        await send(gate, channel, number)
    await loop.run(WINDOW_SECONDS)
    await gate.typing(channel, 100)
    assert channel.typed == 1


@pytest.mark.parametrize("error", [http_error(500), http_error(403), OSError(104, "reset"), aiohttp.ClientError()])
async def test_typing_that_fails_harms_nothing(error):
    gate, channel = Gate(), a_channel()
    channel.wrong = [error]
    await gate.typing(channel, 100)
    assert channel.typed == 1


@pytest.mark.parametrize("turn", ["m1", "0193f0c2-7d5e-7bb2-a1c7-6a0b8a4b0c11", "x" * 200, "naïve 🍵"])
def test_a_nonce_is_short_the_same_for_the_same_chunk_and_another_for_any_other(turn):
    made = [nonce(turn, chunk) for chunk in range(20)]
    assert made == [nonce(turn, chunk) for chunk in range(20)]
    assert len({*made, nonce(turn + "1", 0)}) == 21
    assert max(map(len, made)) <= 25


@pytest.mark.promise(3)
def test_mentions_ping_nobody_or_the_one_person():
    nobody, alice = pings(None).to_dict(), pings(11).to_dict()
    assert (nobody, alice) == ({"parse": []}, {"parse": [], "users": [11]})


@pytest.mark.promise(1)
async def test_every_post_carries_its_nonce_and_restrictive_mentions_and_no_reference():
    channel = a_channel()
    await Gate().send(channel, "hello", nonce="n1", extras=Extras(ping=11))
    options = channel.sent[0].options
    assert (options.pop("nonce"), options.pop("enforce_nonce")) == ("n1", True)
    assert options.pop("allowed_mentions").to_dict() == {"parse": [], "users": [11]}
    assert options == {}


@pytest.mark.parametrize("error", [OSError(104, "reset"), aiohttp.ServerDisconnectedError()])
async def test_a_post_whose_connection_breaks_is_sent_once_more_under_its_nonce_with_its_file(error):
    loop, channel = LoopTime(), a_channel()
    made = []

    def attach():
        made.append(discord.File(io.BytesIO(b"x"), "x.png"))
        return made[-1]

    channel.wrong = [error]
    sending = asyncio.create_task(Gate().send(channel, "hello", nonce="n1", extras=Extras(attach=attach)))
    await loop.run(2)
    assert sending.result().content == "hello"
    assert [(sent.options["nonce"], sent.options["files"]) for sent in channel.sent] == [("n1", made[1:])]
    assert len(made) == 2


@pytest.mark.promise(60)
async def test_a_post_is_sent_twice_at_most_and_a_refused_one_once():
    loop, channel = LoopTime(), a_channel()
    channel.wrong = [aiohttp.ServerDisconnectedError(), OSError(104, "reset"), None]
    sending = asyncio.create_task(send(Gate(), channel, 1))
    await loop.run(5)
    with pytest.raises(OSError, match="reset"):
        await sending
    channel.wrong = [http_error(403), None]
    with pytest.raises(discord.Forbidden):
        await send(Gate(), channel, 2)
    assert channel.sent == []


class Edited:
    """A message whose edits fail with `wrong`, one after another; None is an edit that is made."""

    def __init__(self, *wrong):
        self.wrong, self.edits = list(wrong), []

    async def edit(self, **how):
        self.edits.append(how)
        if (error := self.wrong.pop(0)) is not None:
            raise error
        return self


@pytest.mark.parametrize("error", [OSError(104, "reset"), aiohttp.ServerDisconnectedError()])
async def test_an_edit_whose_connection_breaks_is_made_once_more_with_its_file(error):
    loop, message, made = LoopTime(), Edited(error, None), []

    def attach():
        made.append(discord.File(io.BytesIO(b"x"), "x.png"))
        return made[-1]

    editing = asyncio.create_task(Gate().edit(message, "better", Extras(attach=attach)))
    await loop.run(2)
    assert editing.result() is message
    assert [(how["content"], how["files"]) for how in message.edits] == [("better", [file]) for file in made]
    assert len(made) == 2


async def test_an_edit_is_made_twice_at_most_and_a_refused_one_once():
    loop, message = LoopTime(), Edited(aiohttp.ServerDisconnectedError(), OSError(104, "reset"), None)
    editing = asyncio.create_task(Gate().edit(message, "better"))
    await loop.run(5)
    with pytest.raises(OSError, match="reset"):
        await editing
    refused = Edited(http_error(403), None)
    with pytest.raises(discord.Forbidden):
        await Gate().edit(refused, "better")
    assert (len(message.edits), len(refused.edits)) == (2, 1)


async def test_history_is_read_from_before_a_message():
    asked = []

    def history(limit, before):
        asked.append((limit, before and before.id))
        return SimpleNamespace(flatten=lambda: asyncio.sleep(0, []))

    gate, channel = Gate(), SimpleNamespace(history=history)
    await gate.history(channel, 100, None)
    await gate.history(channel, 50, 77)
    assert asked == [(100, None), (50, 77)]


@pytest.mark.promise(8)
async def test_a_secret_leaves_in_no_text_no_embed_and_no_file_name():
    gate, channel = Gate(shared=OutboundShared(Redactor(["canary-secret"]))), a_channel()
    embed = discord.Embed(title="canary-secret", description="a canary-secret").set_footer(text="canary-secret")
    embed.add_field(name="canary-secret", value="canary-secret")

    def attach():
        return discord.File(io.BytesIO(b"x"), "canary-secret.png", description="canary-secret")

    await gate.send(channel, "it is canary-secret", nonce="n1", extras=Extras(embed=embed, attach=attach))
    (sent,) = channel.sent
    file = sent.options["files"][0]
    assert sent.text == f"it is {REDACTED}"
    assert "canary" not in f"{sent.options['embed'].to_dict()} {file.filename} {file.description}"


def refused(count):
    counter = RefusedRequests(narrow_at=10, close_at=20)
    for _ in range(count):
        counter.count(403)
    return OutboundShared(refused=counter)


async def test_where_discord_refuses_much_only_answers_to_people_pass_and_then_nothing():
    narrow, closed, channel = Gate(shared=refused(10)), Gate(shared=refused(20)), a_channel()
    with pytest.raises(GateClosed):
        await narrow.send(channel, "a round", nonce="n1")
    with pytest.raises(GateClosed):
        await narrow.react(channel.get_partial_message(5), "🔥")
    with pytest.raises(GateClosed):
        await narrow.history(channel, 10, None)
    await narrow.typing(channel, 100)
    await narrow.send(channel, "an answer", nonce="n2", extras=Extras(ping=11))
    with pytest.raises(GateClosed):
        await closed.send(channel, "an answer", nonce="n3", extras=Extras(ping=11))
    assert [sent.text for sent in channel.sent] == ["an answer"]
    assert channel.typed == 0


KINDS = {
    "post": lambda gate, channel: gate.send(channel, "hello", nonce="n1", extras=Extras(ping=11)),
    "reaction": lambda gate, channel: gate.react(channel.get_partial_message(5), "🔥"),
    "history": lambda gate, channel: gate.history(channel, 10, None),
    "typing": lambda gate, channel: gate.typing(channel, 100),
}


def asked_for(channel):
    return len(channel.sent) + len(channel.reacted) + len(channel.reads) + channel.typed


@pytest.mark.parametrize("kind", KINDS)
async def test_a_closed_gate_holds_every_kind_of_request_and_opens_again_by_itself(kind):
    now, channel = Clock(), a_channel()
    shared = OutboundShared(refused=RefusedRequests(narrow_at=10, close_at=20, clock=now))
    for _ in range(20):
        shared.refused.count(429)
    gate = Gate(shared=shared)
    with suppress(GateClosed):
        await KINDS[kind](gate, channel)
    assert asked_for(channel) == 0
    now.now += WINDOW
    await KINDS[kind](gate, channel)
    assert asked_for(channel) == 1


REQUESTS = sorted(name for name, what in vars(Gate).items() if inspect.iscoroutinefunction(what) and name[0] != "_")
VALUES = {"text": "x", "name": "x", "nonce": "n", "message_id": 1, "channel_id": 1, "user_id": 1, "limit": 1}
NOTHING = dict.fromkeys(("avatar", "before", "thread"))


@pytest.mark.parametrize("request_name", REQUESTS)
async def test_no_request_whatever_passes_a_gate_that_is_closed(request_name):
    request, discords = getattr(Gate(shared=refused(20)), request_name), MagicMock()
    needed = [name for name, one in inspect.signature(request).parameters.items() if one.default is one.empty]
    with nullcontext() if request_name == "typing" else pytest.raises(GateClosed):  # typing is no reason to fail
        await request(**{name: {**VALUES, **NOTHING}.get(name, discords) for name in needed})
    assert discords.mock_calls == []


async def test_a_request_that_waits_when_the_gate_closes_is_not_sent():
    loop, shared, channel = LoopTime(), refused(19), a_channel()
    gate = Gate(RequestWindow(limit=1), shared)
    first = asyncio.create_task(gate.send(channel, "one", nonce="n1", extras=Extras(ping=11)))
    second = asyncio.create_task(gate.send(channel, "two", nonce="n2", extras=Extras(ping=11)))
    await first
    shared.refused.count(403)
    await loop.run(WINDOW_SECONDS)
    with pytest.raises(GateClosed):
        await second
    assert [sent.text for sent in channel.sent] == ["one"]


@pytest.mark.promise(106)
@pytest.mark.parametrize("kind", ["post", "reaction", "typing"])
async def test_a_request_that_waits_when_a_person_stops_the_channel_is_not_sent(kind):
    loop, channel, silent = LoopTime(), a_channel(), False
    outbound = Gate(RequestWindow(limit=1))
    gate = outbound.under(ConditionalLease(lambda: not silent))
    await outbound.history(channel, 1, None)
    waiting = asyncio.create_task(KINDS[kind](gate, channel))
    await settle()
    silent = True
    await loop.run(WINDOW_SECONDS)
    with suppress(Silenced):
        await waiting
    assert asked_for(channel) == 1, "the history"
    await loop.run(WINDOW_SECONDS)
    await KINDS[kind](outbound, channel)
    assert asked_for(channel) == 2, "who does not speak is not held"


async def test_all_gates_of_a_process_count_and_close_together():
    shared, channel = refused(19), a_channel()
    first, second = Gate(shared=shared), Gate(shared=shared)
    await first.send(channel, "an answer", nonce="n1", extras=Extras(ping=11))
    shared.refused.count(401)
    for gate in (first, second):
        with pytest.raises(GateClosed):
            await gate.send(channel, "an answer", nonce="n2", extras=Extras(ping=11))


async def test_no_secret_leaves_in_the_words_or_the_name_of_a_webhooks_post():
    sent = []

    class Webhook:
        async def send(self, text, **options):
            sent.append((text, options["username"]))

        async def edit_message(self, _, **options):
            sent.append((options["content"], ""))

    gate = Gate(shared=OutboundShared(redact=Redactor(("canary-secret",))))
    named = {"name": "Tool canary-secret", "avatar": None, "thread": None}
    await gate.send_by_webhook(Webhook(), "it is canary-secret", **named)
    await gate.edit_by_webhook(Webhook(), 1, "still canary-secret", thread=None)
    assert sent == [(f"it is {REDACTED}", f"Tool {REDACTED}"), (f"still {REDACTED}", "")]


def test_an_answer_to_a_command_is_no_longer_than_a_message_and_never_empty():
    assert len(fit("x" * 3000)) <= 2000
    assert (fit("x" * 2000), fit("  ")) == ("x" * 2000, "…")
