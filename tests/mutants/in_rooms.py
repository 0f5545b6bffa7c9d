"""Mistakes in what rooms, arenas and the choice of speakers brought."""

from __future__ import annotations

from tests.mutants.mutant import of

TURNS = "agent_cogs/turn/test_room_turns.py"
ROOMS = "agent_coordinator/conversations/test_rooms.py"
RUNS = "agent_coordinator/rooms"
ARENA = "agent_cogs/rooms/test_arena.py"
SUMMARIES = "agent_protocol/state/test_summaries.py"

IN_ROOMS = (
    *of(
        "agent_cogs/turn/room_turns.py",
        TURNS,
        (" and number == room.turn_number + 1", "", "a turn whose number is not the room's plus one is dropped"),
        ('room.status == "active" and number', "number", "a room that is paused hears no more"),
        ('raise TurnOver("out_of_turn")\n    enter_room', "pass\n    enter_room", "a dropped turn asks no model"),
    ),
    *of(
        "agent_cogs/turn/admission.py",
        TURNS,
        (
            "return replace(event, on_behalf=room.opened_by)",
            "return event",
            "a room's turns are on the account of the person who opened it",
        ),
    ),
    *of(
        "agent_coordinator/conversations/rooms.py",
        ROOMS,
        (
            "turn_number=room.turn_number + 1, last_speaker",
            "turn_number=state.turns_had, last_speaker",
            "posts are numbered without a gap",
        ),
        ('        "agent_budget",\n', "", "a member without money leaves after three turns"),
        ('    "person_budget": "budget",', "", "a room whose opener has no money left ends"),
    ),
    *of(
        "agent_coordinator/conversations/running.py",
        RUNS,
        (
            "        if not await self.stored(running):\n            return taken(running.state)\n        left",
            "        left",
            "a slot for the audience is stored",
        ),
    ),
    *of(
        "agent_coordinator/rooms/commands.py",
        RUNS,
        (
            "room = await self._keeper.at_rest(room)\n        return",
            "return",
            "a room that is just ending can be resumed",
        ),
    ),
    *of(
        "agent_protocol/coordination/conversations.py",
        "agent_protocol/coordination",
        ("if overtaken(KEYS[3], ARGV[5]) or redis", "if redis", "a leader of an earlier epoch writes no room"),
    ),
    *of(
        "agent_protocol/state/summaries.py",
        SUMMARIES,
        ("nx=True, ", "", "of two turns one makes a summary"),
        ("if await self.read(thread_id) == former:", "if True:", "a summary is made once for each cut"),
    ),
    *of(
        "agent_cogs/prompt/model_call.py",
        "agent_cogs/prompt/test_cheap_gate.py",
        ('turn.spending.add(replace(cost, model=""))', "pass", "what the cheap model costs is on the turn's books"),
    ),
    *of(
        "agent_cogs/limits/single_call.py",
        f"{ARENA} agent_cogs/rooms/test_positions.py",
        (
            'outcome.usage, outcome.reason, outcome.error = call.most, "interrupted", "cancelled"',
            'outcome.reason, outcome.error = "interrupted", "cancelled"',
            "a call that is cut off costs what was reserved",
        ),
        (
            "        person_id=call.person_id,\n        message_id",
            "        person_id=None,\n        message_id",
            "an arena is on the account of the person who asked",
        ),
        ('if verdict not in ("ok", "closing", None):', "if False:", "over the budget no model is called"),
    ),
    *of(
        "agent_cogs/trace/person_notices.py",
        "agent_cogs/trace/test_person_notices.py",
        (
            "if known is not None and (known or not notice.calls):",
            "if False:",
            "a message that all bots of a process hear is noticed once",
        ),
        (
            "(known or not notice.calls)",
            "True",
            "a message is noticed as a call by the bot that it calls",
        ),
    ),
    *of(
        "agent_cogs/rooms/arena.py",
        ARENA,
        ("elif arena.begun:", "elif False:", "an arena asks its contenders once"),
        ("len(voters - frozenset().union(", "len(voters | frozenset().union(", "who votes for both votes for neither"),
    ),
    *of(
        "agent_cogs/rooms/arena_lines.py",
        ARENA,
        (
            '{HIDDEN}{box}\\n{answer.text}"',
            '{HIDDEN}{box} {answer.shown}\\n{answer.text}"',
            "an arena's names are shown at its end",
        ),
    ),
    *of(
        "agent_cogs/rooms/opening.py",
        "agent_cogs/rooms/test_opening.py",
        (
            "await self._openings.keep(opening)\n        return await self._go_on(opening, again=False)",
            "return await self._go_on(opening, again=False)",
            "a room that somebody asked for is opened after a crash",
        ),
    ),
    *of(
        "agent_cogs/slash/handlers.py",
        "agent_cogs/slash",
        (
            "if command.name in self._managers and not",
            'if command.name.startswith("bots") and command.name in self._managers and not',
            "rooms are opened and changed by those who manage the server",
        ),
    ),
    *of(
        "agent_discord/posting/webhook_writer.py",
        "agent_discord/test_webhook_sink.py",
        (
            'return EarlierPosts(await self.since(after)).take(text, "")',
            "return None",
            "a webhook's post whose arrival is uncertain is looked for before it is made again",
        ),
    ),
    *of(
        "agent_discord/room_upkeep.py",
        "agent_discord/test_room_upkeep.py",
        (" if not user.bot]", "]", "a bot's reaction is no vote in a room"),
    ),
    *of(
        "agent_discord/arena_posts.py",
        "agent_discord/test_arena_posts.py",
        (" if not user.bot)", ")", "a bot's reaction is no vote in an arena"),
    ),
)
