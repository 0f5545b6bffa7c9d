"""The layers of an agent's options, from .env to the pins."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from agent_config import load_settings
from agentic.agent.options import OptionBook, base_layer
from agentic.context.entries import Entry, Speaker
from agentic.context.options import MAX_MESSAGES

NAMES = {"claude": "Claude", "grok": "Grok"}


class Files:
    """Layers by bot."""

    def __init__(self, **layers):
        self.version, self.of = 0, layers

    def layers(self, bot, guild_id):
        return [self.of[bot]] if bot in self.of and guild_id == 7 else []


@dataclass
class Place:
    pins: tuple = ((),)
    channel_id: int = 1
    guild_id: int = 7
    parent: object = None


def pin(number, text, *, may_manage=True, roles=()):
    speaker = Speaker(11, "Alice", "person", roles=frozenset(roles), may_manage=may_manage)
    return Entry(number, speaker, f".config {text}", float(number), pinned=True, hidden=True)


def test_each_level_stands_over_the_one_below():
    files = Files(claude={"max_images": 3})
    book = OptionBook(
        NAMES, {"max_messages": 10, "max_images": 1}, files, lambda agent: {"max_images": 2, "stream": True}
    )
    assert book.options("claude", Place(guild_id=8)).max_images == 2
    options = book.options("claude", Place())
    assert (options.max_messages, options.max_images, options.stream) == (10, 3, True)
    pinned = book.options("claude", Place(((pin(1, "\n---\nmax_images: 4"),),)))
    assert (pinned.max_messages, pinned.max_images) == (10, 4)


def test_a_threads_own_pins_stand_over_its_channels_however_old():
    book = OptionBook(NAMES, {})
    above, own = pin(9, "\n---\nmax_images: 1"), pin(2, "\n---\nmax_images: 2")
    assert book.options("claude", Place(((above,), (own,)))).max_images == 2


def test_pins_of_who_may_not_and_for_others_do_not_count():
    book = OptionBook(NAMES, {"config_roles": (5,)})
    pins = (pin(1, "\n---\nmax_images: 1", may_manage=False), pin(2, "grok\n---\nmax_images: 2"))
    assert book.options("claude", Place((pins,))).max_images == 4
    assert book.options("grok", Place((pins,))).max_images == 2
    by_role = (pin(3, "\n---\nmax_images: 3", may_manage=False, roles=(5,)),)
    assert book.options("claude", Place((by_role,))).max_images == 3


def test_an_agent_goes_by_its_key_and_its_inner_name():
    book = OptionBook(NAMES, {}, Files(claude={"name": "Opus"}))
    assert book.of("claude", Place()).names == {"claude", "Opus"}
    assert book.of("grok", Place()).names == {"grok", "Grok"}
    assert book.channel_names(Place()) == {"claude": "Opus"}
    assert book.options("claude", Place(((pin(1, "opus\n---\nmax_images: 1"),),))).max_images == 1


def test_a_wrong_pin_is_known_with_what_is_wrong_and_the_rest_of_it_counts():
    found = OptionBook(NAMES, {}).of("claude", Place(((pin(1, "\n---\nmax_images: 1\nmodel: a/b"),),)))
    assert found.options.max_images == 1
    assert [(one.message_id, one.problems) for one in found.pins] == [(1, ("model: can't be set here",))]


def test_what_was_made_is_kept_until_something_changes():
    files = Files(claude={"max_images": 1})
    book = OptionBook(NAMES, {}, files)
    first = book.of("claude", Place())
    assert book.of("claude", Place()) is first
    files.of["claude"] = {"max_images": 2}
    assert book.of("claude", Place()) is first
    files.version += 1
    assert book.options("claude", Place()).max_images == 2
    assert book.options("claude", Place(((pin(1, "\n---\nmax_images: 3"),),))).max_images == 3


def test_more_messages_than_a_context_can_hold_are_as_many_as_it_can():
    settings = load_settings({"CONTEXT_WINDOW_SIZE": "100000"}, None)
    assert base_layer(settings)["max_messages"] == MAX_MESSAGES


class Live:
    """Live options by place and agent."""

    def __init__(self, **layers):
        self.version, self.kept = 1, {tuple(key.split("__")): layer for key, layer in layers.items()}

    def layer(self, place, agent):
        return self.kept[place, agent]

    def layers(self, agent, guild_id, channels):
        places = ["all", f"s{guild_id}", *(f"c{channel}" for channel in channels)]
        return [(place, who) for place in places for who in ("any", agent) if (place, who) in self.kept]


def test_live_options_stand_over_files_and_below_pins():
    live = Live(all__any={"max_images": 5, "max_messages": 20}, c1__claude={"max_images": 6, "stream": True})
    book = OptionBook(NAMES, {"max_messages": 10}, Files(claude={"max_images": 3}), live=live)
    options = book.options("claude", Place())
    assert (options.max_images, options.max_messages, options.stream) == (6, 20, True)
    assert book.of("claude", Place()).own_depth
    assert book.options("grok", Place()).max_images == 5
    pinned = book.options("claude", Place(((pin(1, "\n---\nmax_images: 7"),),)))
    assert (pinned.max_images, pinned.stream) == (7, True)
    live.kept["c1", "claude"], live.version = {"max_images": 8}, 2
    assert book.options("claude", Place()).max_images == 8


def test_what_is_live_in_a_channel_holds_in_its_threads():
    book = OptionBook(NAMES, {}, live=Live(c1__any={"max_images": 5}, c2__any={"max_files": 1, "stream": True}))
    thread = Place(channel_id=2, parent=Place(channel_id=1))
    assert book.options("claude", thread).max_images == 5
    assert book.options("claude", thread).stream
    assert not book.options("claude", Place(channel_id=1)).stream


@pytest.mark.promise(411)
def test_live_options_take_tools_away_and_never_set_what_files_alone_may():
    live = Live(all__any={"tools": ["web_*", "calculate"], "model": ["a/b"], "config_roles": [5], "recall": True})
    book = OptionBook(NAMES, {"tools": ("web_search", "fetch_page")}, live=live)
    options = book.options("claude", Place())
    assert (options.tools, options.model, options.config_roles, options.recall) == (("web_search",), (), (), True)


def test_each_option_has_a_source():
    live = Live(all__any={"max_images": 5, "retries": 1})
    files = Files(claude={"stream": True})
    files.named = lambda bot, guild_id: [("bots/claude.yaml", layer) for layer in files.layers(bot, guild_id)]
    book = OptionBook(NAMES, {"max_messages": 10}, files, lambda agent: {"mode": "chat", "stream": False}, live)
    found = book.sources("claude", Place(((pin(9, "\n---\nretries: 3"),),)))
    assert {name: (source.kind, source.place) for name, source in found.items()} == {
        "max_messages": ("env", ""),
        "mode": ("persona", "identity.md"),
        "stream": ("file", "bots/claude.yaml"),
        "max_images": ("live", "all:any"),
        "retries": ("pin", "9"),
    }
