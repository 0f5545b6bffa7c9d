"""Pure shaping of turns and schemas, and what importing costs."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest

from agentic.llm.profiles import Profile
from agentic.llm.provider_table import ENDPOINTS, profile_at, profile_of
from agentic.llm.registry import build_model
from agentic.llm.schemas import schema_for
from agentic.llm.turns import OPENING, build_turns, cache_marks, count_pictures, with_newest_pictures
from agentic.llm.types import Message, Picture, Prompt, ToolResult, ToolRound

NESTED = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "title": "T"},
        "kind": {"type": "string", "enum": ["a", "b"]},
        "count": {"type": "integer", "minimum": 3},
        "tags": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
    },
    "required": ["title"],
}


def test_a_strict_schema_is_closed_and_requires_all_at_every_depth() -> None:
    schema = schema_for(Prompt(text="", schema=NESTED), profile_of("openai", "gpt-6-luna"))
    assert schema is not None
    assert schema["required"] == ["title", "kind", "count", "tags"]
    assert schema["properties"]["title"] == {"type": "string"}
    assert schema["properties"]["kind"]["anyOf"] == [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]
    assert schema["properties"]["count"]["type"] == ["integer", "null"]
    inner = schema["properties"]["tags"]["items"]
    assert (inner["additionalProperties"], inner["required"]) == (False, ["x"])


def test_what_a_provider_refuses_in_a_schema_is_left_out() -> None:
    schema = schema_for(Prompt(text="", schema=NESTED), profile_of("anthropic", "claude-haiku-5-5"))
    assert schema is not None
    assert schema["properties"]["count"] == {"type": "integer"}
    assert schema["required"] == ["title"]
    assert NESTED["properties"]["count"] == {"type": "integer", "minimum": 3}  # type: ignore[index]


def test_roles_alternate_and_the_user_begins_where_the_api_wants_it() -> None:
    history = [Message("assistant", "a"), Message("assistant", "b"), Message("user", "c")]
    turns = build_turns(Prompt(text="d"), history, Profile(alternate=True))
    assert [(turn.role, [part.text for part in turn.parts]) for turn in turns] == [
        ("user", [OPENING]),
        ("assistant", ["a", "b"]),
        ("user", ["c", "d"]),
    ]


def test_only_the_last_marks_are_kept_and_each_on_a_part_that_can_carry_it() -> None:
    picture = Picture(b"x", "image/png")
    history = [Message("user", str(number), cache=True) for number in range(5)]
    history += [Message("user", "seen", (picture,), cache=True), Message("assistant", "mine", cache=True)]
    turns = build_turns(Prompt(text="tail"), history, Profile())
    marks = cache_marks(turns, 2, roles=("user",))
    marked = [part for turn in turns for part in turn.parts if id(part) in marks]
    assert [(part.text, part.picture) for part in marked] == [("4", None), ("", picture)]
    assert not cache_marks(turns, 0)


@pytest.mark.parametrize(
    ("provider", "model", "kinds"),
    [
        ("openai", "gpt-6-luna", ["png", "jpeg", "webp"]),
        ("anthropic", "claude-haiku-5-5", ["png", "jpeg", "gif", "webp"]),
        ("google", "gemini-3.8-flash", ["png", "jpeg", "webp"]),
        ("xai", "grok-4.7", ["png", "jpeg"]),
        ("bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0", ["png", "jpeg", "gif", "webp"]),
        ("compatible", "llama-4", ["png", "jpeg"]),
        ("compatible", "anthropic/claude-opus-4.5", ["png", "jpeg"]),
    ],
)
def test_a_picture_that_would_fail_the_request_is_left_out(provider: str, model: str, kinds: list[str]) -> None:
    profile = profile_of(provider, model)
    pictures = [Picture(b"x", f"image/{kind}") for kind in ("png", "jpeg", "gif", "webp")]
    large = Picture(bytes(profile.picture_bytes + 1), "image/png")
    history = [Message("user", "", (picture,), cache=True) for picture in (*pictures, large)]
    history.append(Message("user", "look", (large,), cache=True))
    parts = [part for turn in build_turns(Prompt(text="tail"), history, profile) for part in turn.parts]
    assert [part.picture.media_type for part in parts if part.picture] == [f"image/{kind}" for kind in kinds]
    assert [part.text for part in parts if part.cache and not part.picture] == ["look"]


@pytest.mark.parametrize("endpoint", ["openrouter", "groq", "ollama", "llamacpp", "lmstudio", "vllm"])
def test_an_endpoint_sees_what_its_servers_read_unless_it_says_otherwise(endpoint: str) -> None:
    known = ENDPOINTS[endpoint]
    profile = profile_at(known, "llama-4")
    assert (profile.sees, profile.max_pictures) == (frozenset({"image/png", "image/jpeg"}), 10)
    assert profile_at(replace(known, profile={"max_pictures": 1}), "llama-4").max_pictures == 1


def test_a_request_carries_the_newest_pictures_and_no_more_than_it_may() -> None:
    one, two, three, four = (Picture(bytes([number]), "image/png") for number in range(4))
    history = [Message("user", "a", (one, two)), Message("user", "b")]
    step = ToolRound((), (ToolResult("c", "look", "seen", (four,)),))
    prompt = Prompt(text="c", pictures=(three,), rounds=(step,))

    def carried(most: int) -> list[tuple[Picture, ...]]:
        asked, shown = with_newest_pictures(prompt, history, most)
        return [message.pictures for message in shown] + [asked.pictures, asked.rounds[0].results[0].pictures]

    assert carried(4) == [(one, two), (), (three,), (four,)]
    assert carried(3) == [(two,), (), (three,), (four,)]
    assert carried(1) == [(), (), (), (four,)]
    assert carried(0) == [(), (), (), ()]


@pytest.mark.parametrize(
    ("model", "effort", "marks"), [("gpt-4.1-mini", None, 0), ("gpt-5.4", "low", 0), ("gpt-6-luna", "low", 4)]
)
def test_older_models_are_not_asked_for_what_they_lack(model: str, effort: str | None, marks: int) -> None:
    profile = profile_of("openai", model)
    assert (profile.effort, profile.cache_marks) == (effort, marks)


def test_importing_the_package_imports_no_sdk() -> None:
    code = (
        "import sys, agentic.llm.registry, agentic.llm.types, agentic.llm.http\n"
        "heavy = {'openai', 'anthropic', 'boto3', 'google.genai', 'httpx2', 'aiohttp', 'genai_prices', 'pydantic'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout.strip() == "[]"


def test_building_one_model_imports_no_other_sdk() -> None:
    code = (
        "import sys\nfrom agentic.llm.registry import build_model\n"
        "build_model('openai', api_key='k')\n"
        "print(sorted({'anthropic', 'boto3', 'google.genai'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(("free", "found"), [(False, True), (True, False)])
def test_a_model_that_costs_something_is_built_with_its_prices_and_a_free_one_without(free: bool, found: bool) -> None:
    code = (
        "import sys\nfrom agentic.llm.registry import build_model\n"
        f"build_model('openai', api_key='k', free={free})\n"
        "print('genai_prices.data_snapshot' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603
    assert ran.stdout.strip() == str(found)


async def test_models_built_in_threads_at_once_import_their_sdks_whole() -> None:
    providers = ("openai", "google", "xai", "google")
    models = await asyncio.gather(*(asyncio.to_thread(build_model, name, api_key="k") for name in providers))
    assert [model.provider for model in models] == list(providers)
    for model in models:
        await model.aclose()


def test_a_provider_without_a_default_wants_a_model() -> None:
    with pytest.raises(ValueError, match="no model"):
        build_model("openrouter", api_key="k")


def test_an_unknown_provider_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        build_model("nobody", api_key="k")


def test_the_last_picture_of_a_message_carries_its_mark() -> None:
    pictures = tuple(Picture(bytes(number), "image/png") for number in range(1, 4))
    profile = profile_of("anthropic", "claude-haiku-5-5")
    (turn,) = build_turns(Prompt(text=""), [Message("user", "look", pictures, cache=True)], profile)
    assert [part.cache for part in turn.parts[:4]] == [False, False, False, True]


def test_a_prompts_own_pictures_are_pictures() -> None:
    assert count_pictures(Prompt(text="look", pictures=(Picture(b"x", "image/png"),)), []) == 1
    assert count_pictures(Prompt(text="look"), [Message("user", "words")]) == 0
