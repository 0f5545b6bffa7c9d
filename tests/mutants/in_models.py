"""Mistakes in agent_llm."""

from __future__ import annotations

from tests.mutants.mutant import of

RETRY = "agent_llm/test_retry.py agent_llm/test_model_failures.py"
FALLBACK = "agent_llm/test_fallback.py"
PRICING = "agent_llm/test_pricing.py"
SHAPING = "agent_llm/wire/test_turns.py agent_llm/test_begun_answers.py agent_llm/test_providers.py"

IN_MODELS = (
    *of(
        "agent_llm/retry.py",
        RETRY,
        (
            "min(self.longest_wait, self.first_wait * 2",
            "max(self.longest_wait, self.first_wait * 2",
            "waits grow up to a longest one",
        ),
        ("2 ** (failed - 1)", "2 ** failed", "the first wait is the first"),
        ("if number >= most or", "if number > most or", "no more attempts than allowed"),
        ("self.clock() + wait >= ends", "self.clock() >= ends", "a wait that would pass the end is not begun"),
        ("max(0.0, error.retry_after) + rng", "rng", "what a provider asks for is waited"),
        (
            "return replace(rule, rest=error.retry_after)",
            "return rule",
            "a model rests as long as its provider asks for",
        ),
        (
            "TimedOut: FailureRule(fall_back=True",
            "TimedOut: FailureRule(retry=True, fall_back=True",
            "what took too long is not asked again",
        ),
        ("_within(attempt, ends - self.clock())", "_within(attempt, seconds)", "all attempts share one budget"),
        (
            "self.policy.attempts if attempts is None else attempts",
            "self.policy.attempts",
            "a prompt may say how often it is tried",
        ),
    ),
    *of(
        "agent_llm/fallback.py",
        FALLBACK,
        ("left * SHARE if place < awake else left", "left", "a model that has a stand-in leaves it time"),
        ("usage=reply.usage + spent)", "usage=reply.usage)", "what failed attempts cost is told"),
        ("if self._rests_until[index] <= now]", "]", "a model that is down is left alone"),
        (
            "rule.rest\n        return rule.fall_back",
            "rule.rest\n        return True",
            "what was refused is not asked elsewhere",
        ),
        (
            "return all(model.free for model in self.models)",
            "return any(model.free for model in self.models)",
            "a list is free where all of it is",
        ),
        ("awake + [index for index in able if index not in awake]", "awake", "late answers are better than none"),
        (
            'if began and prompt.on_text:\n                prompt.on_text("")',
            "if began:\n                pass",
            "what a model that failed began is taken back",
        ),
        ("error.usage = spent if spent != Usage() else None", "pass", "what all failures cost is told"),
    ),
    *of(
        "agent_llm/pricing.py",
        PRICING,
        ("min(usage.cached_tokens, usage.input_tokens)", "usage.cached_tokens", "odd counts break no price"),
        (
            "usage.input_tokens * rates.price_in + usage.output_tokens * rates.price_out",
            "usage.input_tokens * rates.price_out + usage.output_tokens * rates.price_in",
            "an owner's prices are in and out",
        ),
        ("    cost += _search_cost(provider, model, usage)\n", "", "searches cost"),
        ("return row.each * usage.pictures", "return row.each", "each picture costs"),
        ("max(each for _, _, each in _SEARCHES)", "0.0", "an unknown search is expensive, not free"),
        ("return row or _DEAREST_PICTURE", "return row or _PICTURES[-1][2]", "an unknown picture is expensive"),
        (
            "    if free:\n        return replace",
            "    if not free:\n        return replace",
            "what is free costs nothing",
        ),
        (
            "address.is_loopback or address.is_private",
            "address.is_loopback",
            "a model on the own network costs nothing",
        ),
        ("return cost + surcharged", "return cost - surcharged", "what is kept for an hour costs more"),
        (
            "kept is None:\n        kept = _token_prices_kept[id(row), tier]",
            "kept is None:\n        kept = _token_prices_kept[id(row), 0]",
            "prices are kept by the length of the prompt",
        ),
    ),
    *of(
        "agent_llm/wire/turns.py",
        SHAPING,
        ("turns[-1].role == turn.role", "turns[-1].role != turn.role", "roles alternate where they must"),
        ('turns[0].role == "assistant"', 'turns[0].role == "user"', "the user opens where they must"),
        ("text=last.text.rstrip())", "text=last.text)", "an answer that was begun ends without white space"),
        ("<= profile.picture_bytes", ">= profile.picture_bytes", "a picture that is too large is not sent"),
        ("picture.media_type in profile.sees and", "", "a kind of picture that a model does not see is not sent"),
        ("return bool(prompt.pictures) or in_results", "return in_results", "pictures of the prompt count"),
        ("cache=message.cache and not seen)", "cache=message.cache)", "one mark ends a message", SHAPING),
        ("number == last)", "number == 0)", "the last picture carries the mark"),
    ),
)
