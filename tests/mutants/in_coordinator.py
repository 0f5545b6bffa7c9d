"""Mistakes in agent_coordinator."""

from __future__ import annotations

from tests.mutants.mutant import of

COORDINATOR = "test_coordinator.py"
STATE = "agent_coordinator/conversations/test_state.py"
POLICY = "agent_coordinator/policies/test_rounds.py"
REQUESTS = "agent_coordinator/conversations/test_requests.py"
SCHEDULE_CHANGES = "agent_coordinator/schedule/test_slot_changes.py"
RESUMING = "agent_coordinator/conversations/test_resuming.py"

IN_COORDINATOR = (
    *of(
        "agent_coordinator/conversations/engine.py",
        COORDINATOR,
        ("- state.touched_at > RESUME", "- state.started_at > RESUME", "a long talk goes on after a restart", RESUMING),
        ("> RESUME_SECONDS", "< RESUME_SECONDS", "what is too old is closed, what is not goes on", RESUMING),
        ("        running.woken.set()\n", "", "a request ends the pause", REQUESTS),
        (
            "running.woken.set()\n        await self._runner.keep(running)",
            "running.woken.set()",
            "a request is kept",
            REQUESTS,
        ),
    ),
    *of(
        "agent_coordinator/conversations/running.py",
        COORDINATOR,
        (
            "                await self._leadership.until_held()\n                return True",
            "                return True",
            "who lost the lease gives no turn",
            RESUMING,
        ),
        (
            'frozenset({"benched", "muted", ',
            'frozenset({"benched", ',
            "who is muted is as if it were not there",
        ),
        (
            'outcome.skipped and outcome.reason == "stopped"',
            'outcome.reason == "never"',
            "a stop that an agent heard of first ends the talk",
        ),
        (" + self._asker.pause", "", "after timeouts there is a pause"),
        (
            "if state.brief and not state.pending:",
            "if not state.brief and not state.pending:",
            "a reactive round is one round",
        ),
        (
            "state = replace(state, requested=self.state.requested, called=self.state.called)",
            "pass",
            "a request that comes during a turn is kept",
            REQUESTS,
        ),
        (
            "if not (state.asking or state.granted) and not await",
            "if not state.asking and not await",
            "a request has no pause",
            REQUESTS,
        ),
        ("if state.granted:", "if False:", "a request comes before an end", REQUESTS),
        ("await self._unfinished.drop(running.state)", "pass", "what has ended is not gone on with", RESUMING),
        (
            "self.running.pop(state.channel_id, None)",
            "pass",
            "a channel's next talk can be stopped",
            f"{COORDINATOR} agent_coordinator",
        ),
        (
            "self._policies.of(before).pause(before, self._rng) + ",
            "",
            "the policy's pause is waited for",
            f"{COORDINATOR} agent_coordinator/policies",
        ),
    ),
    *of(
        "agent_coordinator/conversations/entries.py",
        STATE,
        ("messages=int(is_post(result))", "messages=1", "only posts count as messages"),
        ("skips=int(skip)", "skips=int(result.skipped)", "an answer with nothing in it is a skip"),
        (
            "reactions=int(bool(result.emoji_reacted) and not skip)",
            "reactions=int(not skip)",
            "reactions are counted as they are",
        ),
        (
            "cached_tokens=usage.cached_tokens",
            "cached_tokens=usage.input_tokens",
            "cached tokens are those that were cached",
        ),
    ),
    *of(
        "agent_coordinator/conversations/state.py",
        STATE,
        ("state.end_streak + 1 if", "1 if", "wishes to end add up"),
        (
            "state = replace(state, end_streak=streak, last_turn_showed=True)",
            "state = replace(state, end_streak=streak)",
            "a turn that showed is known as one",
        ),
        (
            'topic=state.topic or (result.topic or "")[:MAX_TOPIC_CHARACTERS] or None',
            'topic=(result.topic or "")[:MAX_TOPIC_CHARACTERS] or None',
            "the first topic stays",
        ),
        ("return self if self.asking else replace(", "return replace(", "a turn that was under way keeps its id"),
        ("if room < 0:", "if room <= 0:", "history of exactly the limit is sent whole"),
        ("return tuple(reversed(entries))", "return tuple(entries)", "history is sent oldest first"),
        (
            "return len({*self.spoke, *self.skipped, *self.unheard, *self.pending})",
            "return len({*self.spoke, *self.skipped})",
            "who answered too late was there",
        ),
        (
            "spoke=others(self.spoke),",
            "spoke=self.spoke,",
            "a turn on request takes the place of the one before",
            REQUESTS,
        ),
        (
            "pending=order,\n            asking=None,\n            spoke=(),",
            "pending=order,\n            asking=None,\n            spoke=self.spoke,",
            "a round begins with nobody having spoken",
        ),
        (
            "if said.message_id == message_id if message_id is not None else said.agent != reaction.agent",
            "if said.message_id == message_id or said.agent != reaction.agent",
            "a reaction belongs to the message reacted to",
        ),
    ),
    *of(
        "agent_coordinator/policies/round_rules.py",
        POLICY,
        (
            "len(state.skipped) * 2 > state.present",
            "len(state.skipped) * 2 >= state.present",
            "half of a round may skip",
        ),
        (
            "len(state.spoke) < SPEAKERS",
            "len(state.skipped) < SPEAKERS",
            "a round is judged by who spoke and who skipped",
        ),
        ("if state.round_number >= self", "if state.round_number > self", "no more rounds than allowed"),
        ("if len(state.spoke) < SPEAKERS", "if len(state.spoke) <= SPEAKERS", "two speakers are enough"),
        (
            "CONTINUATION_DECAY * (round_number - 1)",
            "CONTINUATION_DECAY * round_number",
            "the first round has the base chance",
        ),
        (
            "rng.random() >= continuation_probability",
            "rng.random() < continuation_probability",
            "a likely round follows",
        ),
        ("if state.agreed_to_end:", "if not state.agreed_to_end:", "two end requests in a row end it"),
        ("        if state.pending:\n            return None\n", "", "a round is not judged before its last turn"),
        ("if not state.opened:", "if state.opened:", "a conversation that nobody opens ends"),
        (
            "delay if state.last_turn_showed and state.take_up is None else 0.0",
            "delay if state.take_up is None else 0.0",
            "nobody waits for a turn that showed nothing",
        ),
        (
            "rng.uniform(self.delay_min, self.delay_max)",
            "rng.uniform(self.delay_max, self.delay_max)",
            "the pause between turns is drawn from its range",
        ),
    ),
    *of(
        "agent_coordinator/policies/pull.py",
        "agent_coordinator/policies/test_pull.py",
        (
            'out |= {state.last_speaker or "", *state.unheard}',
            "out |= {*state.unheard}",
            "nobody speaks twice in a row",
        ),
        ("out = {*state.silent, *state.missing}", "out = {*state.missing}", "who is silent is not asked again at once"),
        ("        if state.take_up is not None:\n            return False\n", "", "a round goes on for a person"),
        ("if not state.spoke:", "if state.spoke:", "a round without a message ends it"),
    ),
    *of(
        "agent_coordinator/conversations/staleness.py",
        "agent_coordinator/conversations/test_staleness.py",
        ("    if angles >= MOST_ANGLES and", "    if angles > MOST_ANGLES and", "a stale talk ends within three turns"),
        ("angle=None, angles=0)", "angle=None)", "what is new begins the count again"),
    ),
    *of(
        "agent_coordinator/policies/rounds.py",
        POLICY,
        (
            "if len(order) > 1 and order[0] == state.last_speaker",
            "if len(order) > 1 and order[-1] == state.last_speaker",
            "the last speaker is not the first of the next round",
        ),
        (
            "max(shares.values()",
            "min(shares.values()",
            "the most talkative is always asked",
            "agent_coordinator/policies/test_talkativeness.py",
        ),
        (
            "Choice((starter, *rng.sample(others, len(others))))",
            "Choice((*rng.sample(others, len(others)), starter))",
            "the starter begins",
            f"{POLICY} {COORDINATOR}",
        ),
    ),
    *of(
        "agent_coordinator/reactive.py",
        COORDINATOR,
        (
            "min(len(others), self._rng.randint(1, MOST_JOINERS))",
            "self._rng.randint(1, MOST_JOINERS)",
            "two can be drawn of one",
        ),
        (
            "self._rng.random() >= self._config.reactive",
            "self._rng.random() < self._config.reactive",
            "others join seldom",
        ),
        ("if agent != answered_by]", "]", "who answered does not join in"),
        (
            "notice.trigger_message_id or notice.message_id",
            "notice.message_id",
            "it is the person's message that is joined in on",
        ),
        (
            "if not await self._schedule.take_reactive",
            "if await self._schedule.take_reactive",
            "a channel has one reactive round in five minutes",
        ),
    ),
    *of(
        "agent_coordinator/schedule/scheduler.py",
        f"{COORDINATOR}::SchedulerTests agent_coordinator/schedule/test_clock_changes.py",
        ("late > MISSED_SLOT_SECONDS", "late < MISSED_SLOT_SECONDS", "a slot that was missed by far is not fired"),
        ("done=at < now", "done=False", "slots before the plan was made are over"),
        (
            "for day in (today - timedelta(days=1), today)",
            "for day in (today,)",
            "yesterday's late slots are fired after midnight",
        ),
        ("return not slot.done and", "return slot.done and", "what is done is not due"),
        ("                self._changed.set()\n", "", "a time that is moved to now fires now", SCHEDULE_CHANGES),
        ("slot.added or self", "self", "an added time counts without a schedule", SCHEDULE_CHANGES),
        ("min(wait, LONGEST_SLEEP), self._sleep)", "wait, self._sleep)", "it looks at the clock each minute"),
        ("        return ours\n", "        return True\n", "a slot that another process claimed is not fired"),
        ("return min(open_slots", "return max(open_slots", "the earliest slot is next"),
        (
            "self._config.schedule_max > 0)",
            "self._config.schedule_min > 0)",
            "nothing is planned only where nothing may be",
        ),
        (
            "self._known[key] if key in self._known else self._new_plan(day)",
            "self._new_plan(day)",
            "a Redis that was emptied gets the same plan",
        ),
    ),
    *of(
        "agent_coordinator/schedule/days.py",
        "agent_coordinator/schedule/test_days.py",
        ("day if end_hour > start_hour else", "day if end_hour >= start_hour else", "equal hours mean round the clock"),
        (
            "begin + (index + rng.random()) * length",
            "begin + rng.random() * (end - begin)",
            "one in each part of the day",
        ),
        ("yesterday if now <", "today if now <", "after midnight it is yesterday's plan until its window ends"),
    ),
    *of(
        "agent_coordinator/schedule/rotation.py",
        f"{COORDINATOR}::RotationTests {COORDINATOR}::ChannelTests",
        ("if channel not in busy]", "]", "a busy channel is not picked"),
        ("if channel in free:", "if channel is not None:", "a queued channel that is busy is passed over"),
        (
            "return (*first, *rng.sample(others, len(others)))",
            "return (*rng.sample(others, len(others)), *first)",
            "priority channels come first",
        ),
        (
            "dict.fromkeys(config.priority_channels) if channel in config.channels",
            "dict.fromkeys(config.priority_channels)",
            "a priority channel that is not configured is left out",
        ),
    ),
)
