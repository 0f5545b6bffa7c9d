"""The price of a call in US dollars, and estimates of what a call consumes. Offline.

genai-prices has dated prices of tokens; provider_table.py has prices of web searches and pictures. An unknown model is
charged as its provider's most expensive model, with one warning: if it were free, it would pass every budget.

A call's usage is estimated before the call, if the call was cut off, and if the server doesn't report usage. Tokens
can't be counted offline, so characters are: a token has about four, but this counts three, to overestimate rather than
underestimate. The whole program uses this rule.
"""

from __future__ import annotations

import functools
import logging
import threading
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentic.llm.provider_table import PROVIDERS, PicturePrice
from agentic.llm.turns import count_pictures
from agentic.llm.types import Message, Prompt, Usage

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider

CHARACTERS_A_TOKEN = 3
PICTURE_TOKENS = 1_500
SEARCHES = 3  # of a call with web search: the limit sent to providers, if they accept one
SEARCH_TOKENS = 4_000  # the input that a search adds

# The price table has five-minute cache writes, 1.25 times the input; one-hour writes cost twice the input.
_HOUR_WRITE_SURCHARGE = 0.75

MAX_SEARCH_PRICE = max(usd for each in PROVIDERS.values() for _, usd in each.search_prices)
_MOST_EXPENSIVE_PICTURE = PicturePrice(0.25, 10.0, 120.0)


@dataclass(frozen=True, slots=True)
class Rates:
    """The owner's prices for a model: US dollars per million tokens in and out."""

    price_in: float
    price_out: float


@dataclass(frozen=True, slots=True)
class ListPrice:
    """A model's prices: US dollars per million tokens of a short prompt.

    `known` is false if no table has the model, which is then charged as its provider's most expensive model.
    """

    input: float
    cached: float
    output: float
    known: bool = True


_warned: set[str] = set()
_loading = threading.Lock()
log = logging.getLogger(__name__)


def is_local(base_url: str | None) -> bool:
    """Return whether an address is on this machine or a private network, so that calls are free. Resolves no names."""
    host = (urlsplit(base_url).hostname or "") if base_url else ""
    try:
        address = ip_address(host)
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
    return address.is_loopback or address.is_private or address.is_link_local


def price(
    provider: str,
    model: str,
    usage: Usage,
    *,
    free: bool = False,
    rates: Rates | None = None,
    now: datetime | None = None,
) -> Usage:
    """Return the usage with its model and costs filled in.

    `free`: calls cost nothing. `rates` override the table's token prices. `now` selects among dated prices. If the
    usage includes pictures, its whole cost is `picture_cost_usd`; otherwise tokens and searches are `text_cost_usd`.
    """
    name = f"{provider}/{model}"
    if free:
        return replace(usage, model=name, text_cost_usd=0.0, picture_cost_usd=0.0)
    if usage.pictures:
        row = picture_price(provider, model)
        cost = row.each * usage.pictures
        if row.output_mtok and usage.output_tokens:
            cost = (usage.input_tokens * row.input_mtok + usage.output_tokens * row.output_mtok) / 1e6
        return replace(usage, model=name, text_cost_usd=0.0, picture_cost_usd=cost)
    if rates is not None:
        cost = (usage.input_tokens * rates.price_in + usage.output_tokens * rates.price_out) / 1e6
    else:
        cost = _token_cost(provider, model, usage, now or datetime.now(UTC))
    if usage.searches:
        prices = PROVIDERS[provider].search_prices if provider in PROVIDERS else ()
        each = next((usd for prefix, usd in prices if model.startswith(prefix)), MAX_SEARCH_PRICE)
        cost += usage.searches * each
    return replace(usage, model=name, text_cost_usd=cost, picture_cost_usd=0.0)


def list_price(
    provider: str, model: str, *, free: bool = False, rates: Rates | None = None, now: datetime | None = None
) -> ListPrice:
    """Return the prices that `price` uses for a model, for people to read."""
    if free:
        return ListPrice(0.0, 0.0, 0.0)
    if rates is not None:
        return ListPrice(rates.price_in, rates.price_in, rates.price_out)
    cost = functools.partial(_cost, *_row(provider, model), now or datetime.now(UTC))
    tokens = (Usage(input_tokens=1_000), Usage(input_tokens=1_000, cached_tokens=1_000), Usage(output_tokens=1_000))
    plain, cached, output = ((cost(usage) - cost(Usage())) * 1_000 for usage in tokens)  # without that of a call itself
    return ListPrice(plain, cached, output, known=f"{provider}/{model}" not in _warned)


def load() -> None:
    """Read the price table (tens of milliseconds) and use it once, because its first use imports more."""
    price("openai", "gpt-6-luna", Usage(input_tokens=1, output_tokens=1))


def picture_price(provider: str, model: str) -> PicturePrice:
    """Return the prices of a picture. For an unknown model these are high, with a warning."""
    rows = PROVIDERS[provider].picture_prices if provider in PROVIDERS else ()
    row = next((row for prefix, row in rows if model.startswith(prefix)), None)
    if row is None:
        _warn_once(provider, model)
    return row or _MOST_EXPENSIVE_PICTURE


def _warn_once(provider: str, model: str) -> None:
    name = f"{provider}/{model}"
    if name not in _warned:
        _warned.add(name)
        log.warning("no price is known for %s: counted as its provider's most expensive model", name)


def _token_cost(provider: str, model: str, usage: Usage, now: datetime) -> float:
    if not (usage.input_tokens or usage.output_tokens):
        return 0.0
    seller, info = _row(provider, model)
    # An odd answer may count more cached tokens than tokens, which the price table refuses.
    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    if (cached, written) != (usage.cached_tokens, usage.cache_write_tokens):
        usage = replace(usage, cached_tokens=cached, cache_write_tokens=written)
    cost = _cost(seller, info, now, usage)
    surcharged = round(usage.hour_write_tokens * _HOUR_WRITE_SURCHARGE)
    return cost + (_cost(seller, info, now, Usage(input_tokens=surcharged)) if surcharged else 0.0)


def _cost(seller: Provider, info: ModelInfo, now: datetime, usage: Usage) -> float:
    prices = info.get_prices(now)
    table = _tables.get(id(prices))
    if table is None:
        tiers = [each.tiers for each in vars(prices).values() if hasattr(each, "tiers")]
        table = _tables[id(prices)] = _Table(prices, sorted({tier.start for each in tiers for tier in each}))
    tier = bisect_left(table.starts, usage.input_tokens)
    rates = table.rates.get(tier)
    if rates is None:
        rates = table.rates[tier] = _rates_in_tier(seller, info, now, table.starts, tier)
    call, plain, cached, written, output = rates
    fresh = usage.input_tokens - usage.cached_tokens - usage.cache_write_tokens
    cost = call + plain * fresh + cached * usage.cached_tokens
    return cost + written * usage.cache_write_tokens + output * usage.output_tokens


@dataclass(slots=True)
class _Table:
    """A model's prices in a period. Above each of `starts` (input tokens), all tokens have another price. `rates` has
    the results of `_rates_in_tier` by tier."""

    prices: ModelPrice
    starts: Sequence[int]
    rates: dict[int, Sequence[float]] = field(default_factory=dict)


_tables: dict[int, _Table] = {}  # by the id of their prices


def _rates_in_tier(
    seller: Provider, info: ModelInfo, now: datetime, starts: Sequence[int], tier: int
) -> tuple[float, ...]:
    """Return the US dollars for a call itself, and for a token: input, cached input, written to the cache, and output.

    genai-prices takes a quarter of a millisecond for a price, so this is computed once.
    """
    from genai_prices.types import Usage as PricedUsage

    def ask(**counts: int) -> float:
        found = info.calc_price(PricedUsage(**counts), seller, genai_request_timestamp=now, auto_update_timestamp=None)
        return float(found.total_price)

    most = starts[tier] if tier < len(starts) else sum(starts[-1:]) + 1_000_000
    call = ask()
    plain = ask(input_tokens=most)
    cached = ask(input_tokens=most, cache_read_tokens=most)
    written = ask(input_tokens=most, cache_write_tokens=most)
    output = ask(input_tokens=most, output_tokens=most) - plain
    return (call, *((each - call) / most for each in (plain, cached, written)), output / most)


@functools.cache
def _row(provider: str, model: str) -> tuple[Provider, ModelInfo]:
    """Return the table's row for a model, by comparing thousands of names.

    For an unknown model, return the most expensive text model of its seller, or of all if the seller has no prices.
    """
    with _loading:
        from genai_prices.data_snapshot import get_snapshot

        snapshot = get_snapshot()
    try:
        return snapshot.find_provider_model(model, None, _seller_of(provider), None)
    except LookupError:
        _warn_once(provider, model)
    usage, now = Usage(input_tokens=1000, output_tokens=1000), datetime.now(UTC)
    ids = set(map(_seller_of, PROVIDERS))
    own = [seller for seller in snapshot.providers if provider in PROVIDERS and seller.id == _seller_of(provider)]
    sellers = own or [seller for seller in snapshot.providers if seller.id in ids]
    rows = [(seller, info) for seller in sellers for info in seller.models]
    return max(rows, key=lambda row: _cost(row[0], row[1], now, usage))


def _seller_of(provider: str) -> str:
    """Return the provider's name in the price table."""
    known = PROVIDERS.get(provider)
    return (known.price_list if known else "") or provider


def tokens_of(characters: int) -> int:
    """Convert characters to tokens, rounded up."""
    return -(-characters // CHARACTERS_A_TOKEN)


def expected(prompt: Prompt, history: Sequence[Message] = ()) -> Usage:
    """Estimate the highest usage of a call in advance: the whole input, the longest answer, and some searches."""
    searches = (prompt.max_searches or SEARCHES) if prompt.search else 0
    return Usage(
        calls=1,
        input_tokens=input_tokens(prompt, history) + searches * SEARCH_TOKENS,
        output_tokens=prompt.max_output_tokens,
        searches=searches,
    )


def fill_in(usage: Usage, prompt: Prompt, history: Sequence[Message], answer: str) -> Usage:
    """Fill in estimates if the usage reports no tokens. There is always input."""
    if not usage.input_tokens:
        usage = replace(usage, input_tokens=input_tokens(prompt, history), cached_tokens=0, cache_write_tokens=0)
    if not usage.output_tokens and answer:
        usage = replace(usage, output_tokens=tokens_of(len(answer)))
    return usage


def input_tokens(prompt: Prompt, history: Sequence[Message]) -> int:
    """The tokens of a call's input."""
    texts = [prompt.system, prompt.text, prompt.prefill or "", *(message.text for message in history)]
    texts += [f"{tool.description}{tool.parameters}" for tool in prompt.tools]
    texts += [part for one in prompt.rounds for part in (f"{one.calls}", *(result.text for result in one.results))]
    return tokens_of(sum(map(len, texts))) + count_pictures(prompt, history) * PICTURE_TOKENS
