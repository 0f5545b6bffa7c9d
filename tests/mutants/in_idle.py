"""Mistakes in what agents do while nobody writes, and in what they keep and find of what was said."""

from __future__ import annotations

from tests.mutants.mutant import of

GATES = "agent_coordinator/idle/test_gates.py"
CANDIDATES = "agent_coordinator/idle/test_candidates.py"
SCHEDULER = "agent_coordinator/idle/test_scheduler.py"
UNASKED = "agent_cogs/idle/test_unasked_posts.py"
TEXTS = "agent_cogs/idle/test_idle_texts.py"
RECALL = "agent_store/memories/test_recall.py"
MEMORY = "agent_store/test_memory.py"
CHAINS = "agent_cogs/thread_memory/test_chains.py"
OWN = "agent_cogs/thread_memory/test_own_memory.py"
MUTE = "agent_cogs/inbox/test_mute_sign.py"
CONSENTS = "agent_cogs/trace/test_consents.py"
PRIVACY = "agent_cogs/thread_memory/test_privacy.py"

IN_IDLE = (
    *of(
        "agent_coordinator/idle/gates.py",
        GATES,
        ("if consent is False:", "if False:", "who said no is not written to"),
        ('consent is None and unasked != "everyone"', "False", "nobody is written to who has not agreed"),
        ("* 2**unanswered", "", "an unanswered message doubles the pause"),
        ("if unanswered >= MOST_UNANSWERED:", "if False:", "three unanswered messages are enough"),
        ("if newest <= seen else None", "if newest < seen else None", "nothing is asked for where nothing is new"),
        ("if about == did else None", "if False else None", "the same material is not taken twice"),
    ),
    *of(
        "agent_coordinator/idle/candidates.py",
        CANDIDATES,
        ("or opted_in(each.person_id, given.consents, given.unasked)", "", "unasked messages need consent"),
        (
            "or person_rested(each.person_id, given.sent, given.now, config.person_hours)",
            "",
            "a person is not written to twice in a short time",
        ),
        (
            "or channel_rested(each.channel_id, given.sent, given.now, config.channel_hours)",
            "",
            "a channel has no two unasked messages in a short time",
        ),
        (
            'or (novel(each.material, to_them) if task == "follow_up" else None)',
            "",
            "an agent does not follow up its own unasked message",
        ),
        ("each.channel_id in given.stopped", "False", "nothing unasked in a stopped channel"),
        (
            "topics = novel_topics(each.topics, [one for one in to_them if one.at > since])",
            "topics = each.topics",
            "a topic is not brought up twice",
        ),
    ),
    *of(
        "agent_coordinator/idle/scheduler.py",
        SCHEDULER,
        ("self._asker.cancel(self._standing.asking)", "pass", "a person's message cancels the turn under way"),
        ("self._stops is not None and self._stops.paused", "False", "nothing is done while all bots are paused"),
        (
            "now, settings.active_start, settings.active_end, settings.timezone\n",
            "now, 0, 24, settings.timezone\n",
            "nothing is done in quiet hours",
        ),
        (
            "if (closed := gates.nothing_new(newest, schedule.state.seen, again=again)) is not None:",
            "if False:",
            "no look without news",
        ),
        ("if (closed := await self._agent_gates(agent, now)) is not None:", "if False:", "a muted agent does nothing"),
        ("return gates.budget(used_up, self._midnight(now))", "return None", "the share for idle tasks is a limit"),
        ("if not self._leadership.held:", "if False:", "one process alone begins idle tasks"),
        ("if standing.messages != wrote:\n            return", "if False:\n            return", "a person comes first"),
        (
            "asks = await self._save() and standing",
            "asks = standing",
            "the state is written before a turn is asked for",
        ),
    ),
    *of(
        "agent_cogs/idle/unasked.py",
        UNASKED,
        ("if says_again(decision.text, ", "if False and says_again(decision.text, ", "nothing is said twice"),
        ("chain(given.avoid, given.material.splitlines())", "given.avoid", "what was said already is not news"),
        ("entry.text != text for", "False for", "words that were edited out are not answered"),
        ("not await turn.agent.unasked.is_unwanted(person_id)", "True", "a no counts at once"),
        ('raise TurnOver("unwanted") from away', "return", "nothing unasked while nobody knows of a no"),
        (
            "person_spoke_after(newest):",
            "person_spoke_after(newest) and False:",
            "nothing unasked after a person wrote",
        ),
        ("replace(Decision(), text=decision.text)", "decision", "words alone are posted"),
    ),
    *of(
        "agent_cogs/inbox/mute_sign.py",
        MUTE,
        (" == sign.who.user_id:", " is not None:", "a 🔕 counts from the person that the message was for alone"),
        (" or await self._memory.unasked(message_id)", "", "a 🔕 counts where Redis has forgotten the message"),
        (
            "if await self._notices.first(message_id, MUTE_SIGN):\n            await",
            "if True:\n            await",
            "an old 🔕 ends no newer yes",
        ),
    ),
    *of(
        "agent_cogs/inbox/missed_orders.py",
        "agent_cogs/inbox/test_catch_up.py",
        ("newest_with((STOP_SIGN, MUTE_SIGN), NEWEST)", "newest_with((STOP_SIGN,), NEWEST)", "a 🔕 in a gap is found"),
        ("if said_at > self._services.clock() - MUTES_LAST:", "if True:", "a 🔕 of long ago is not obeyed again"),
    ),
    *of(
        "agent_protocol/state/live_options.py",
        "agent_protocol/state/test_live_options.py",
        ("if owner(field) == owner(ARGV[1]) then", "if true then", "a server uses up no other's options"),
        ("redis.call('HDEL', KEYS[1], ARGV[2])\nredis", "redis", "an older version's option can be changed"),
    ),
    *of(
        "agent_cogs/idle/texts.py",
        TEXTS,
        (" if not _DETAIL.search(topic)", "", "no private detail is kept as a topic"),
        ("{INDENT}{line}", "{line}", "what was said is data"),
    ),
    *of(
        "agent_store/memories/recall.py",
        RECALL,
        ("JOIN place ON place.channel = ", "JOIN place ON 0 <> ", "recall keeps to channels"),
        ("said.author_id NOT IN", "0 NOT IN", "nothing of ignored people is found"),
        (" >= FLOOR]", " >= 0]", "nothing is found where nothing fits well"),
        ("AND abs(id) < place.before", "", "what the reader has before them is not found again"),
    ),
    *of(
        "agent_store/memory.py",
        f"{RECALL} {MEMORY}",
        ("if may_see(channel))", ")", "recall finds what the channel's readers may read"),
    ),
    *of(
        "agent_cogs/trace/consents.py",
        f"{CONSENTS} {OWN} {PRIVACY}",
        ("first = await self._wishes.refuse(user_id)", "first = True", "a no counts at once, not when it is recorded"),
        ("self._note(user_id, False, because)", "self._note(user_id, True, because)", "a no is noted as a no"),
        ("await self._wishes.allow(user_id)", "pass", "a yes ends a no"),
    ),
)
