"""The layers of an agent's options, from .env to the pins."""

from __future__ import annotations

from dataclasses import dataclass

from agent_cogs.persona.options import OptionBook, base_layer
from agent_config import load_settings
from agent_context.entries import Entry, Speaker
from agent_context.steering.options import MAX_MESSAGES

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


def pin(number, text, *, may_manage=True, roles=()):
    speaker = Speaker(11, "Alice", "person")
    rights = {"may_manage": may_manage, "author_roles": frozenset(roles)}
    return Entry(number, speaker, f".config {text}", float(number), pinned=True, hidden=True, **rights)


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
    assert book.inner_names(Place()) == {"claude": "Opus"}
    assert book.options("claude", Place(((pin(1, "opus\n---\nmax_images: 1"),),))).max_images == 1


def test_a_wrong_pin_is_known_with_what_is_wrong_and_the_rest_of_it_counts():
    found = OptionBook(NAMES, {}).of("claude", Place(((pin(1, "\n---\nmax_images: 1\nmodel: a/b"),),)))
    assert found.options.max_images == 1
    assert [(one.message_id, one.problems) for one in found.pins] == [(1, ("model: cannot be set here",))]


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
    assert base_layer(settings) == {"max_messages": MAX_MESSAGES}
