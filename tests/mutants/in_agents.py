"""Mistakes in agent_cogs."""

from __future__ import annotations

from tests.mutants.mutant import of

COG = "test_agent_cog.py"
MONEY = "agent_cogs/turn/test_turn_costs.py"
STOPPING = "agent_cogs/inbox/test_stop_orders.py"
INBOX = "agent_cogs/inbox/test_lanes.py"
TRACE = "agent_cogs/trace/test_trace.py"
TIME = "agent_cogs/automation/test_clock.py"
CLOCKS = "agent_cogs/automation/test_clock.py agent_cogs/automation/test_heartbeats_and_jobs.py"
HOOKS = "agent_cogs/automation/test_hooks.py"
CALLING = "agent_cogs/inbox/test_bot_mentions.py agent_cogs/inbox/test_inbox_bot_mentions.py"
PROGRESS = "agent_cogs/turn/test_progress.py"
ARREARS = "agent_cogs/inbox/test_catch_up.py"
PREFILL = "agent_cogs/prompt/test_prefill_turns.py"
SIGHT = "agent_cogs/prompt/test_view.py"
DECISION = "agent_cogs/answer/test_decision.py agent_cogs/answer/test_cleaning_properties.py"

IN_AGENTS = (
    *of(
        "agent_cogs/turn/turn.py",
        f"{COG} {PROGRESS} {MONEY}",
        (
            "    if cancellation.reason is not None and done.nothing:\n",
            "    if cancellation.reason is not None:\n",
            "what was posted before a stop is told as posted",
            f"{STOPPING} {COG}",
        ),
        (
            "            _check_overtaken(turn, view)\n",
            "",
            "words that pass by what a person has just said are not posted",
            STOPPING,
        ),
        (
            "            _check_clock(turn)\n",
            "",
            "nothing is posted after the deadline, whatever the machine did",
            TIME,
        ),
        (
            "        await agent.limits.release_cooldown(event.channel_id)  # nothing",
            "        pass  # nothing",
            "who stays silent may speak at once",
        ),
        (
            'raise TurnOver("budget" if progress.closing else "skipped")',
            'raise TurnOver("skipped")',
            "a closing turn that is silent still closes",
        ),
        (
            'return replace(done, reason="budget") if progress.closing else done',
            "return done",
            "a closing turn says so",
        ),
        (
            "if turn.agent.clock() >= turn.event.deadline",
            "if turn.agent.clock() > turn.event.deadline",
            "the deadline is the deadline",
            TIME,
        ),
        (
            "if progress.answer is None:\n                await progress.keep_answer",
            "if progress.answer is not None:\n                await progress.keep_answer",
            "an answer is kept before it is posted",
            PROGRESS,
        ),
        (
            'Refused: "refused", SessionLost',
            'Refused: "model_failed", SessionLost',
            "who declines is told as declining",
        ),
    ),
    *of(
        "agent_cogs/turn/progress.py",
        PROGRESS,
        ("self.closing = bool(left.closing)", "self.closing = False", "a closing turn closes after a restart too"),
    ),
    *of(
        "agent_cogs/turn/admission.py",
        f"{COG} {MONEY} agent_cogs/limits/test_provider_backoff.py",
        (
            "if event.deadline <= agent.clock() or",
            "if event.deadline > agent.clock() or",
            "a turn whose time is over takes nothing",
        ),
        ('("benched" if', '("benched" if not', "an agent that rests refuses"),
    ),
    *of(
        "agent_cogs/turn/actions.py",
        f"{COG} {PROGRESS}",
        ("        spending.add(cost)\n", "        pass\n", "a drawing is paid for"),
        ("cost = error.usage or Usage()", "cost = Usage()", "a drawing that failed is paid for"),
        ("together = spending.total + cost", "together = cost", "a picture is afforded with what was spent"),
        ("- agent.clock() - POST_SECONDS", "- agent.clock()", "there is time left to post after drawing"),
        (
            "if message_id is None and target is not None",
            "if target is not None",
            "a reaction goes where the model wants it",
        ),
        ('reason="reaction_failed" if done.nothing else None', "reason=None", "a reaction that was not given is told"),
        (
            "decision.image_prompt if posted.picture_url and drawn is not None else None",
            "decision.image_prompt if drawn is not None else None",
            "only a picture that stands has a prompt",
        ),
        (
            "    await progress.keep_picture(drawing.picture)\n",
            "",
            "what was drawn is not drawn twice",
            PROGRESS,
        ),
    ),
    *of(
        "agent_cogs/prompt/search_first.py",
        "agent_cogs/prompt/test_search_first.py",
        ("        if self.first.made:\n", "        if False:\n", "a second search of one answer is refused"),
        ("prompt = replace(prompt, search=False)", "pass", "a maker's search is offered until it was made"),
    ),
    *of(
        "agent_cogs/answer/tables.py",
        "agent_cogs/answer/test_tables.py",
        ("inside ^= fences % 2 == 1", "inside = False", "a table in a code block stays as it is"),
    ),
    *of(
        "agent_chat/sources.py",
        COG,
        ("source.url not in text][:MAX_SOURCES]", "source.url not in text]", "no more than three sources"),
        ("and source.url not in text]", "]", "a source that the text links is not linked twice"),
    ),
    *of(
        "agent_discord/posting/source_line.py",
        COG,
        ("if text.count(FENCE) % 2 else", "if not text.count(FENCE) % 2 else", "a code block ends before the sources"),
    ),
    *of(
        "agent_cogs/inbox/lanes.py",
        f"{INBOX} properties/test_inbox_properties.py",
        ("max(self._at, self._clock())", "self._clock()", "an event's time never goes back"),
        (
            "min(lanes - running, self._max_running - running, waiting)",
            "max(0, lanes - running)",
            "what runs is not counted as waiting",
        ),
        (
            "        self._next.pop(name, None)  # of",
            "        pass  # of",
            "a task that was cancelled before its first step leaves nothing",
        ),
        ("            timer.cancel()\n", "            pass\n", "a pause ends with what it was for"),
        ("self._waiting -= len(gone)", "pass", "what was taken back does not wait"),
        ("and len(self._running) < self._max_running:", "and True:", "no more turns run than allowed"),
        (
            '            log.exception("lane %s: an event failed; the lane continues", name)',
            "            raise",
            "one event's failure ends no lane",
        ),
        (
            "if not self._lanes:\n            self._empty.set()",
            "if not self._lanes:\n            pass",
            "who waits for the last turn hears of its end",
        ),
        (
            "not keep(self._next[name])",
            "keep(self._next[name])",
            "what is about to begin is taken back too",
        ),
    ),
    *of(
        "agent_cogs/automation/clock.py",
        CLOCKS,
        (
            "            self._loaded = False\n",
            "            pass\n",
            "who takes an agent over reads what the other one did",
        ),
        ("else now + LOOK_SECONDS\n", "else now + 2 * LOOK_SECONDS\n", "files are looked at each minute"),
        (
            "self._held.clear()\n            return AWAY_SECONDS",
            "self._held.clear()\n            return LOOK_SECONDS",
            "who gets the agent back looks at once",
        ),
        ("SHORTEST_SLEEP), LOOK_SECONDS)", "SHORTEST_SLEEP), 2 * LOOK_SECONDS)", "an edit is taken up within a minute"),
        ("min(max(min(looks", "min(max(max(looks", "the next look is at what is due first"),
        ("if not self._may_act():", "if self._may_act() is None:", "who does not hold the agent runs nothing"),
        ("_short(task.expression)", "_short(task.name)", "a job whose times were changed is another one"),
    ),
    *of(
        "agent_cogs/automation/hooks.py",
        HOOKS,
        (
            "(event.deadline - self._clock()) / BEGIN_SHARE",
            "event.deadline - self._clock()",
            "agent_begin leaves the event its time",
        ),
        ("min(AROUND_SECONDS,", "max(AROUND_SECONDS,", "a hook has its bound"),
        ("not hook.fires_for(event.kind)", "False", "a condition keeps a hook to its kinds of events"),
        ("        self._shut = True\n", "", "the shutdown hook runs once"),
        ('cancellation.cancel("deadline")', "pass", "a hook ends with the event's time"),
        ("aside = hook.channel is None", "aside = False", "a hook without a channel says nothing in the event's"),
    ),
    *of(
        "agent_cogs/inbox/catch_up.py",
        f"{ARREARS} {PROGRESS}",
        ("turn_id not in known", "turn_id in known", "what is at work here is not begun twice"),
    ),
    *of(
        "agent_cogs/inbox/stop_orders.py",
        STOPPING,
        (
            "if channel_id in (EVERYWHERE, other, self._channels.parent(other))",
            "if channel_id == other",
            "a stop covers the channel's threads",
        ),
        ("not who.roles.isdisjoint(moderators)", "who.roles.isdisjoint(moderators)", "a role with the right may stop"),
        (
            "asked is not None and asked.speaker.id == user_id",
            "asked is not None",
            "a person ends the turns that answer them alone",
        ),
        (" and asked.created_at <= before", "", "a stop ends no answer to what was said after it"),
        ("if not self._sign_throttle.recently(*where):", "if True:", "one sign a minute"),
        ("            self._sign_throttle.note(*where)\n", "", "a sign is shown again after a minute and not before"),
        (
            "if self._channels.parent(other) == channel_id)",
            "if True)",
            "what lifts a channel's stop lifts no other channel's",
        ),
    ),
    *of(
        "agent_cogs/channels.py",
        STOPPING,
        ("or (parent is not None and stops.holds(parent))", "", "a thread is silent with its channel"),
    ),
    *of(
        "agent_cogs/inbox/bot_mentions.py",
        CALLING,
        ("links(entry, before) < most", "links(entry, before) <= most", "a chain ends where it is to"),
        ("return edited and not grew", "return False", "an edit calls nobody"),
        ("return edited and not grew", "return edited", "what grew calls when it is whole"),
        ("        self._growing.pop(entry.id, None)\n", "", "an edit of what grew and is whole calls nobody"),
        (" or self._channels.is_stopped(channel_id)", "", "where silence is wanted nobody is called"),
        ("return not instructed[entry.id]", "return True", "a reactive turn may call"),
        (
            "return not event.cools_down",
            "return event.cools_down",
            "what an agent says in its turn of a conversation calls nobody",
        ),
        ("not (transcript.whole or transcript.begins)", "False", "who does not know what came before calls nobody"),
        ("begun_by.speaker.id if begun_by is not None else None", "None", "who set off the chain pays for it"),
        ("if not options.bot_mentions:", "if options.bot_mentions is None:", "who may not be called by bots is not"),
    ),
    *of(
        "agent_cogs/prompt/view.py",
        SIGHT,
        ("and may_search and not closing", "and not closing", "who may not search does not"),
        (
            "persona=files.stable,\n        memory=files.memory",
            "persona=files.stable,\n        memory=files.stable",
            "the memory is the memory",
            "properties/test_persona_prompt_properties.py",
        ),
        (
            "if e.speaker.agent != turn.agent.key",
            "if e.speaker.agent == turn.agent.key",
            "a turn is about what others said",
        ),
        (
            "default=None)\n\n\ndef _target",
            "default=0)\n\n\ndef _target",
            "a conversation without a message has no beginning",
        ),
        (
            "{file.left_out:,}",
            "{len(file.text):,}",
            "how much of a file is left out is told",
        ),
    ),
    *of(
        "agent_cogs/prompt/history.py",
        SIGHT,
        (
            "for entry in (*resolved.prefix, *entries[:1])",
            "for entry in entries[:1]",
            "what tools brought before a history stays",
            f"flows/test_tools_flow.py {COG}",
        ),
        ("    entries = after(entries, reset)\n", "", "what lies before a reset is no context"),
    ),
    *of(
        "agent_cogs/prompt/prefill_mode.py",
        PREFILL,
        (
            "return () if self.view.context.closing else self._actions.tools",
            "return self._actions.tools",
            "a closing turn has no tools",
        ),
        (
            "tools = [] if self._forced else",
            "tools = [] if not self._forced else",
            "a person's question cannot be skipped",
        ),
        ("ends=not self._forced", "ends=self._forced", "a reaction is no answer to a person"),
        (" if not decision.is_empty or decision.leave else Decision(skip=True)", "", "an empty completion is a skip"),
        (
            '"emoji": "react_emoji", ',
            '"emoji": "text", ',
            "an emoji is a reaction",
        ),
    ),
    *of(
        "agent_cogs/answer/decision.py",
        DECISION,
        ("0 < value <= LARGEST_ID", "0 <= value <= LARGEST_ID", "no message has the id 0"),
        ("if ends and ends[-1] * 2 >= len(text)", "if ends", "most of a text that was cut stays"),
        (
            "if decision.skip and not (forced or decision.leave)",
            "if decision.skip and not decision.leave",
            "silence is no answer to a person",
        ),
        (
            "react_emoji=None, react_to_message_id=None, end_conversation=False)",
            "end_conversation=False)",
            "a reaction alone is no answer to a person",
        ),
        ("isinstance(value, bool | CutString)", "isinstance(value, bool)", "an id that was cut off is none"),
        ("wanted=can_draw and (final", "wanted=(final", "who cannot draw does not"),
    ),
    *of(
        "agent_cogs/answer/cleaning.py",
        f"{DECISION} agent_cogs/answer/test_model_artifacts.py",
        (
            "_COPIED_LINES, _MARK_AND_NAME, _NOTES, _MARK_INSIDE",
            "_COPIED_LINES, _NOTES, _MARK_INSIDE",
            "a speaker's name goes with its mark",
        ),
        (
            "return text if any(_is_seen(char) for char in text) else None",
            "return text or None",
            "what cannot be seen is nothing",
        ),
    ),
    *of(
        "agent_cogs/trace/trace.py",
        TRACE,
        ("        self._since = now\n", "", "each second counts for one phase"),
        ("max(0.0, seconds)  # clocks", "seconds  # clocks", "a clock that was set back takes no time from a phase"),
        (
            'call.error = "cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__',
            "pass",
            "a failed call says so in the record",
        ),
    ),
    *of(
        "agent_cogs/trace/words.py",
        TRACE,
        ("quoted |= _authors(line.about if isinstance(line, Note) else line)", "pass", "forgetting reaches prompts"),
        ("people.add(line.asked_by)", "pass", "forgetting reaches the results of tools in prompts"),
        ("people = sources.context, set(sources.people)", "people = sources.context, set()", "and notes in memories"),
        ("whole if fits(whole, RECORDED) else scale(picture.data, RECORDED)", "whole", "pictures are recorded small"),
    ),
)
