"""What a day has cost is the same sum wherever it is looked up, whatever became of its calls."""

import asyncio
from functools import partial

import pytest

from agentic.record.database import connect
from agentic.record.queries.statistics import read_costs
from agentic.record.queries.turns import whole_turn
from agentic.runtime.replays import ConsoleReplays, ReplayRequest
from agentic.runtime.services import provider_model
from agentic.wire import keys
from tests.flows.test_return_flow import vanish
from tests.support.flow import decision, flow
from tests.support.models.wire.values import Answer
from tests.support.recorded import recorded
from tests.support.redis_server import RedisServer, until

BOTS = ("chatgpt", "claude")
BOTH = {"agents": BOTS}


async def ask(f, bot, text):
    """Ask in a channel of the bot's own; the question's id."""
    channel = {"chatgpt": "casual", "claude": "debate"}[bot]
    return (await f.discord.say("Alice", channel, f"<@{f.user_id(bot)}> {text}"))["id"]


def spent(uses, scope):
    return sum(day[scope].spent for day in uses if scope in day)


async def test_budgets_costs_and_record_agree_after_all_that_a_call_can_come_to(tmp_path):
    def column(question):
        return [value for (value,) in recorded(tmp_path, question)]

    with RedisServer() as redis:
        async with flow(tmp_path, redis_url=redis.url) as f:
            thinking, go_on = asyncio.Event(), asyncio.Event()

            def tea():
                return Answer(text=decision("Tea."), output_tokens=4000)

            async def hold(_):
                thinking.set()
                await go_on.wait()
                return tea()

            async with f.running(**BOTH) as first:
                f.models.answer = lambda _: decision("Look.", generate_image=True, image_prompt="a drawing")
                await ask(f, "chatgpt", "show me")
                await f.discord.wait_for(lambda: f.said("casual", "chatgpt"))
                f.models.answer = lambda _: tea()
                question = await ask(f, "claude", "tea or coffee?")
                await f.discord.wait_for(lambda: f.said("debate", "claude"))
                f.models.answer = lambda _: Answer(text="{", output_tokens=4000)
                await ask(f, "chatgpt", "something odd")
                await until(lambda: "unreadable" in column("SELECT reason FROM turns"))
                f.models.answer = hold
                await ask(f, "claude", "hold this")
                await thinking.wait()
                await f.discord.react("Alice", "debate", int(f.discord.messages("debate")[1]["id"]), "🛑")
                await until(lambda: "cancelled" in column("SELECT error FROM calls"))
                thinking.clear()
                await ask(f, "chatgpt", "hold that")
                await thinking.wait()
                link = first._link
                await vanish(first)
                await link.call(lambda redis: redis.delete(*map(keys.owner, BOTS)))
            go_on.set()
            async with f.running(**BOTH) as second:
                await until(lambda: "interrupted" in column("SELECT error FROM calls"))
                state = second.services.state
                replays = ConsoleReplays(f.settings, state, make_model=partial(provider_model, free_at_home=False))
                async with connect(f.settings.record_file) as db:
                    await until(lambda: len(column("SELECT 1 FROM words")) >= 5)
                    turn = await whole_turn(db, "claude", f"m{question}")
                    answers = await replays.replay(turn, ReplayRequest())
                    assert answers["new"]["cost_usd"] > 0
                    await until(lambda: column("SELECT 1 FROM replays"))
                    days = column("SELECT DISTINCT day FROM turns ORDER BY day")  # two at midnight
                    costs = await read_costs(db, days[0], days[-1])
                uses = [await state.limits.budgets.uses(day, ()) for day in days]
                same = partial(pytest.approx, abs=3e-6)  # budgets are kept in millionths
                for bot in BOTS:
                    in_redis = sum([(await state.limits.costs.read(bot, day)).get("total_cost", 0.0) for day in days])
                    assert spent(uses, f"agent:{bot}") == same(in_redis)
                    assert costs.agents[bot].cost_usd == same(in_redis)
                by_model = sum(each.cost_usd for each in costs.models.values())
                assert (costs.total.cost_usd, by_model) == same((spent(uses, "all"),) * 2)
                assert costs.replays.cost_usd == same(answers["new"]["cost_usd"])
                assert costs.total.turns == 5
                assert [use["all"].reserved for use in uses if "all" in use] == [0] * len(days)
