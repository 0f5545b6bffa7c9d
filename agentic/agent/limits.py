"""An agent's limits, prices, and costs, and its back-off from a provider that rejects it.

- AgentLimits: the cooldown in a channel, the daily maximum, and the budgets. All are checked and taken in one step in
  Redis, so that simultaneous turns can't pass a limit together. A turn is counted once, when it starts.
- ModelPrices, `first_call_usage`: the costs of a turn, estimated before its model is called. The estimate is reserved,
  and replaced by the real costs when the turn ends, so it is high: the whole window, the longest answer, searches, and
  the most expensive of the agent's models. turn/decide.py estimates again from the prompt.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from cachetools import TTLCache
from pydantic import TypeAdapter

from agent_config import AgentSettings
from agentic.agent.events import InstructionEvent, TurnEvent, looks_things_up, read_kept, searches_first
from agentic.chat.transcript import Transcript
from agentic.context.blocks import is_text
from agentic.context.entries import Entry
from agentic.context.options import Options
from agentic.context.prompt import Trigger
from agentic.llm.errors import BadKey, ModelError, QuotaUsedUp
from agentic.llm.pricing import PICTURE_TOKENS, SEARCH_TOKENS, SEARCHES, Rates, price, tokens_of
from agentic.llm.provider_table import profile_of
from agentic.llm.types import Usage
from agentic.process.tasks import wait_at_most
from agentic.state.budgets import Kind
from agentic.state.limits import UNLIMITED, LimitRequest
from agentic.state.presence import BackoffStore
from agentic.state.shared_state import SharedState
from agentic.themes import theme_named
from agentic.wire.connection import or_default
from agentic.wire.messages import TurnUsage

OVERHEAD_TOKENS = 2_700  # persona, rules, answer schema, time
ENTRY_CHARACTERS = 100  # of a message's id, time, and name
UNKNOWN_CHARACTERS = 200  # of a message that wasn't read yet
AFTER_DEADLINE = 60.0  # seconds until a turn is settled or its process is gone
KINDS: Mapping[Trigger, Kind] = {
    **dict.fromkeys(("mention", "continue"), "mention"),
    "starter": "opening",
    **dict.fromkeys(("reactive", "call"), "joining"),
    "round": "round",
    "errand": "joining",  # scheduled work may not use the last part of the daily budget
}

MAX_FAILURES = 3  # permanent failures in a row
BACKOFF_SECONDS = 600.0
SHARE_EVERY = 5.0  # seconds

REPLY_SECONDS = 60.0  # as the replies say: "ask me again in a minute"
EXPLAINED_SECONDS = 7 * 86400.0  # until a reaction is explained again
REMEMBERED = 1000  # people
EVERYBODY = 0

log = logging.getLogger(__name__)

_USAGE: TypeAdapter[Usage] = TypeAdapter(Usage)


class PromptOverhead:
    """Tokens around the transcript in an agent's prompts, learned from recent prompts."""

    def __init__(self) -> None:
        self.tokens = OVERHEAD_TOKENS

    def note(self, tokens: int) -> None:
        """Record a prompt's tokens; a high value decays slowly, since some parts come and go."""
        self.tokens = max(OVERHEAD_TOKENS, tokens, self.tokens * 9 // 10)


@dataclass(frozen=True)
class AgentLimits:
    """An agent's limits, its replies about them, and the size of its prompts. `cooldown` is in seconds (0: none). A
    local day has at most `daily_max` turns, and turns that no person caused are allowed only among the first
    `proactive_max`. By default only the budgets apply. `clock` returns unix seconds."""

    agent: str
    state: SharedState
    clock: Callable[[], float]
    cooldown: float = 0.0
    daily_max: int = UNLIMITED
    proactive_max: int = UNLIMITED
    overhead: PromptOverhead = field(default_factory=PromptOverhead)

    @cached_property
    def replies(self) -> ReplyThrottle:
        """The throttle of lines that explain silence."""
        return ReplyThrottle(self.clock)

    @cached_property
    def explanations(self) -> ReplyThrottle:
        """The throttle of lines that explain a reaction."""
        return ReplyThrottle(self.clock, EXPLAINED_SECONDS)

    def budgets_alone(self) -> AgentLimits:
        return AgentLimits(self.agent, self.state, self.clock)

    def apply_to(
        self, request: LimitRequest, *, cools_down: bool, for_people: bool, is_private: bool = False
    ) -> LimitRequest:
        """Return the request with these limits. In a private chat only the budgets apply: nobody else is kept waiting
        there, and the inbox takes one message after the other (inbox/inbox.py)."""
        return replace(
            request,
            cooldown=self.cooldown if cools_down and not is_private else 0.0,
            daily_max=self.daily_max if for_people else self.proactive_max,
            is_free=request.is_free or is_private,
            message_id=None if is_private else request.message_id,
        )

    async def reserve_more(self, turn_id: str, dollars: float) -> bool:
        """Return whether the turn may cost this sum in total; ask before each further call."""
        return await self.state.limits.reserve_more(self.agent, turn_id, dollars)

    async def release_cooldown(self, channel_id: int) -> None:
        if self.cooldown > 0:
            await self.state.limits.release_cooldown(self.agent, channel_id)

    async def day_total(self, date: str, usage: Usage) -> float:
        """Return the agent's US dollars of the day plus the running turn's; only the latter without Redis."""
        read = or_default(dict[str, float](), "the daily costs are not shown")(self.state.limits.costs.read)
        return (await read(self.agent, date)).get("total_cost", 0.0) + usage.cost_usd


@dataclass(frozen=True, slots=True)
class ModelPrices:
    """Prices of an agent's calls in US dollars, those of its first model that isn't free. `free`: all models are free.
    `rates` are prices set by the owner. `image_provider` draws pictures. `others` are the fallback models. A coding
    agent's call costs at most `query`."""

    provider: str
    model: str
    image_model: str | None
    free: bool = False
    rates: Rates | None = None
    image_provider: str = ""
    others: tuple[ModelPrices, ...] = ()
    query: float | None = None

    @classmethod
    def of(cls, agent: AgentSettings, *, free: bool, query: float | None = None) -> ModelPrices:
        models = agent.usable or agent.models
        paid = [model for model in models if not model.is_free] or models[:1]
        each = [cls(m.provider, m.model, agent.image_model, free, m.rates, agent.image_provider) for m in paid]
        return replace(each[0], others=tuple(each[1:]), query=query)

    def call(self, input_tokens: int, *, output_tokens: int, searches: int = 0) -> float:
        usage = Usage(calls=1, input_tokens=input_tokens, output_tokens=output_tokens, searches=searches)
        return self._priced(usage).cost_usd

    def worst_case(self, usage: Usage) -> Usage:
        """Return the usage priced by the most expensive model that may answer."""
        if self.query is not None and not self.free:
            return replace(usage, model=f"{self.provider}/{self.model}", text_cost_usd=self.query)
        most = self._priced(usage)
        for other in self.others:
            most = max(most, other._priced(usage), key=lambda priced: priced.cost_usd)
        return most

    def picture(self) -> Usage:
        seller, model = self.image_provider or self.provider, self.image_model or ""
        return price(seller, model, Usage(calls=1, pictures=1), free=self.free)

    def _priced(self, usage: Usage) -> Usage:
        return price(self.provider, self.model, usage, free=self.free, rates=self.rates)


def first_call_usage(
    event: TurnEvent,
    trigger: Trigger,
    prices: ModelPrices,
    transcript: Transcript,
    options: Options,
    *,
    window: int,
    overhead: int,
) -> Usage:
    """Return the most that a turn's first call may use and cost. The agent sees `window` messages."""
    said: tuple[str, ...] = ()
    if isinstance(event, InstructionEvent):
        said = tuple(entry.text for entry in event.instruction.conversation_history)
    may_search = trigger == "starter" or looks_things_up(event) or theme_named(event.theme).search
    provider_searches = searches_first(event, options) and bool(profile_of(prices.provider, prices.model).search)
    searches = SEARCHES * (may_search or provider_searches)
    shown, whole = transcript.last(window), transcript.is_complete
    tokens = prompt_tokens(shown, said, options, window=window, whole=whole, overhead=overhead)
    tokens += searches * SEARCH_TOKENS
    usage = Usage(calls=1, input_tokens=tokens, output_tokens=options.max_output_tokens, searches=searches)
    return prices.worst_case(usage)


def prompt_tokens(
    shown: Sequence[Entry], said: Iterable[str], options: Options, *, window: int, whole: bool, overhead: int
) -> int:
    """Estimate a prompt's tokens: the last `window` entries with their pictures and text files, an instruction's
    history (`said`), and the `overhead` around them. A transcript that isn't `whole` may be completed before the call,
    so it's treated as full."""
    characters = sum([len(entry.text) for entry in shown]) + len(shown) * ENTRY_CHARACTERS
    characters += sum([len(line) for entry in shown for line in entry.extras])
    if not whole:
        characters = max(characters, window * UNKNOWN_CHARACTERS)
    characters += sum([len(text) + ENTRY_CHARACTERS for text in said])
    files = [file for entry in shown for file in entry.attachments]
    if options.include_files and files:
        characters += min(sum(file.size for file in files if is_text(file)), options.max_file_characters)
    pictures = sum(file.is_picture for file in files) if options.include_images and files else 0
    return overhead + tokens_of(characters) + min(pictures, options.max_images) * PICTURE_TOKENS


def under_way(usage: Usage) -> str:
    """Encode the turn's cost including the running call, for its record until the call returns."""
    return _USAGE.dump_json(usage, exclude_defaults=True).decode()


def read_under_way(text: str | None) -> Usage | None:
    """Decode the output of `under_way`; None if empty or unreadable."""
    return read_kept(_USAGE, text, "the cost")


class TurnSpending:
    """The usage of one turn: `total` so far, including earlier runs of the program; the `estimate` of one call and the
    sum `reserved` in the turn's record, both in US dollars. `keep` writes to that record."""

    def __init__(self, keep: Callable[[str], Awaitable[None]]) -> None:
        self.total = Usage()
        self.estimate = self.reserved = 0.0
        self._keep = keep

    def add(self, usage: Usage) -> None:
        self.total += usage

    async def reserve(self, usage: Usage) -> None:
        """Save the turn's cost after the next call, so that it's charged if this process crashes during the call.
        Raises CannotPost if another process has taken over the turn."""
        self.reserved = usage.cost_usd
        await self._keep(under_way(usage))


def on_the_wire(usage: Usage) -> TurnUsage:
    fields = {name: getattr(usage, name) for name in TurnUsage.model_fields}
    costs = {name: round(fields[name], 8) for name in ("cost_usd", "picture_cost_usd")}
    return TurnUsage.model_validate({**fields, **costs})


class ProviderBackoff:
    """Count an agent's permanent failures and back off after `MAX_FAILURES`. `clock` returns unix seconds.

    A rejected key or an empty account stays that way for a while; further calls would fill logs and keep people
    waiting. After the back-off a single call decides: success ends it, another failure starts the next. The state is in
    memory, so turns never wait for Redis; `share_backoff` mirrors it there for other processes and the next start.

    Every back-off sets `taken`, and a back-off that starts here also sets `begun`; the reader clears them.
    """

    def __init__(self, agent: str, clock: Callable[[], float]) -> None:
        self.taken, self.begun = asyncio.Event(), asyncio.Event()
        self._agent, self._clock = agent, clock
        self._failures, self.until = 0, 0.0  # the end of the last back-off in unix seconds; 0 if there was none
        self._noticed: set[int] = set()

    @property
    def seconds_left(self) -> float:
        """Seconds until the back-off ends; 0 without one."""
        return max(0.0, self.until - self._clock())

    def adopt(self, until: float) -> None:
        """Continue a back-off that another process started. After it, one failure starts the next."""
        self._failures = max(self._failures, MAX_FAILURES)
        self._start(min(until, self._clock() + BACKOFF_SECONDS))
        log.warning("%s: provider back-off continues for %.0f minutes", self._agent, self.seconds_left / 60)

    def _start(self, until: float) -> None:
        self.until = until
        self._noticed.clear()
        self.taken.set()

    def worked(self) -> None:
        self._failures = 0

    def failed(self, error: ModelError) -> None:
        """Count a failure that a retry wouldn't fix; ignore other failures."""
        if not isinstance(error, (BadKey, QuotaUsedUp)):
            return
        self._failures += 1
        if self._failures < MAX_FAILURES or self.seconds_left:
            return
        self._start(self._clock() + BACKOFF_SECONDS)
        self.begun.set()
        text = "%s: the provider rejected %d requests in a row: %s; no calls for %.0f minutes"
        log.error(text, self._agent, self._failures, error, BACKOFF_SECONDS / 60)

    def first_notice_in(self, channel_id: int) -> bool:
        """Return True once per back-off and channel; later mentions only get a reaction."""
        new = channel_id not in self._noticed
        self._noticed.add(channel_id)
        return new


async def share_backoff(agent: str, backoff: ProviderBackoff, store: BackoffStore) -> None:
    """Write back-offs that started here to Redis, and adopt back-offs found there, until canceled."""
    while True:
        backoff.begun.clear()
        known = await store.share(agent, backoff.until if backoff.seconds_left else 0.0)
        if known > backoff.until and not backoff.seconds_left:
            backoff.adopt(known)
        await wait_at_most(backoff.begun, SHARE_EVERY)


class ReplyThrottle:
    """Remember status replies for `seconds`, by person, channel, and text. `clock` returns unix seconds."""

    def __init__(self, clock: Callable[[], float], seconds: float = REPLY_SECONDS) -> None:
        self._replies: TTLCache[tuple[int, int, str], None] = TTLCache(REMEMBERED, seconds, clock)

    def recently(self, channel_id: int, user_id: int, what: str = "") -> bool:
        return (channel_id, user_id, what) in self._replies

    def note(self, channel_id: int, user_id: int, what: str = "") -> None:
        self._replies[channel_id, user_id, what] = None
