"""Mistakes in agent_protocol."""

from __future__ import annotations

from tests.mutants.mutant import of

LEASES = "agent_protocol/coordination/test_leases.py"
STOPS = "agent_protocol/moderation/test_stops.py"
BUS = "agent_protocol/wire/test_bus.py"
LEDGER = "agent_protocol/test_ledger.py agent_protocol/turns/test_settlement.py"
BUDGETS = "agent_protocol/turns/test_budgets.py"
RECORDS = "agent_protocol/turns/test_records.py"
WRITER = "agent_protocol/record/test_writer.py"
SETTLING = "agent_protocol/turns/test_settlement.py agent_protocol/test_ledger.py agent_protocol/turns/test_budgets.py"

IN_PROTOCOL = (
    *of(
        "agent_protocol/coordination/leases.py",
        LEASES,
        ("self.lost.clear()", "pass", "a lease that was lost and taken again is not lost"),
        (
            "asked_at = self._clock()",
            "asked_at = self._clock() + 1.0",
            "the key outlives the count of its holder, never the reverse",
        ),
        ("- self._sure_at < self._ttl", "- self._sure_at <= 2 * self._ttl", "a lease that nobody renewed is not held"),
        (">= 1.5 * self._renew_every", ">= 0", "a stand-by leaves the holder time to come back"),
        ("            if was_held:\n", "            if not was_held:\n", "a lease that is given up is free at once"),
        (
            "        if self.held:\n            self._sure_at",
            "        if True:\n            self._sure_at",
            "who was paused for longer than the lease does not act on",
        ),
        (
            "if mine == 0 then epoch = epoch + 1 end",
            "",
            "each taking has an epoch of its own",
            f"{LEASES} agent_coordinator",
        ),
        (
            "        self.taken.clear()\n        self.lost.set()",
            "        self.lost.set()",
            "who lost a lease does not hold it",
        ),
    ),
    *of(
        "agent_protocol/wire/bus.py",
        BUS,
        (">= question.grace", ">= 0", "nobody is absent before the grace is over"),
        (
            "max(self.connected_since, self._grace_from)",
            "min(self.connected_since, self._grace_from)",
            "a grace that was granted counts",
        ),
        ("if received and listeners", "if received or listeners", "a monitor's pattern is no agent"),
        ("self._heard_agents.add(agent)", "pass", "an agent's results are heard once"),
        (
            "absent_grace is None else absent_grace",
            "absent_grace is None else self._absent_grace",
            "who judges at once judges at once",
        ),
        ("resubscribed=resubscribed)", "resubscribed=False)", "questions are asked again after a new connection"),
    ),
    *of(
        "agent_protocol/turns/turns.py",
        f"{LEDGER} agent_cogs/turn/test_progress.py",
        ("'HSETNX', KEYS[1], 'answer_by'", "'HSET', KEYS[1], 'answer_by'", "who kept an answer first stays known"),
        (
            "if kept[1] == 'done' or kept[2] ~= ARGV[1] then return 'lost' end",
            "if kept[1] == 'done' then return 'lost' end",
            "a turn that was taken over is not ours",
        ),
        ('if ours is not None and kept.state != "done"', "if ours is not None", "what another process ended is done"),
        ('return bool(outcome != "lost")', 'return bool(outcome == "kept")', "a record that Redis lost is still ours"),
        ("redis.call('ZADD', KEYS[2], ARGV[5], ARGV[6])", "", "who takes an agent over learns of its open turns"),
        (
            "if redis.call('EXISTS', KEYS[k + 1]) == 1 then return end",
            "",
            "a turn that has begun is not kept as one that waits",
            "agent_protocol agent_cogs/inbox/test_queue.py",
        ),
    ),
    *of(
        "agent_protocol/turns/limits.py",
        f"{LEDGER} {BUDGETS}",
        (">= request.most:", "> request.most:", "no more turns a day than allowed"),
        (
            "self._mutes.saw(request.agent, float(totals[0]))",
            "pass",
            "a mute that Redis tells of is known here",
            "agent_protocol/moderation/test_agent_pauses.py",
        ),
        (
            '0.0) > self._clock():\n            return "cooldown"',
            '0.0) < self._clock():\n            return "cooldown"',
            "who has just spoken waits, while Redis is away too",
        ),
        (
            "            self._memory.note_taken(request, int(count))",
            "            pass",
            "while Redis is away the day's count goes on",
        ),
        (
            "        self.give_back(call)\n        if not self._away_said",
            "        if not self._away_said",
            "turns that were taken while Redis was away are counted",
        ),
        ("self._cooldowns.pop((agent, channel_id), None)", "pass", "a cooldown is given back, while Redis is away too"),
        ("round(request.cooldown * 1000)", "round(request.cooldown)", "a cooldown is as long as is set"),
    ),
    *of(
        "agent_protocol/moderation/stops.py",
        STOPS,
        ("order is not None and order.until > self._clock()", "order is not None", "a stop ends by itself"),
        ("known.at > order.at or (self._holds_itself", "(self._holds_itself", "an older order changes nothing"),
        ("max(one.at, one.until) > now - LONGEST", "max(one.at, one.until) > now", "orders are known for a day"),
        (
            "lasting = min(max(seconds or longest(channel_id), 1.0), longest(channel_id))",
            "lasting = max(seconds or longest(channel_id), 1.0)",
            "no stop lasts longer than a day",
        ),
        ('source in ("", known.source)', "source == known.source", "a stop without a source leaves one that holds"),
        ("return_exceptions=True):", "return_exceptions=False):", "who fails to end keeps nobody else from ending"),
        ("        self._bus.on_resubscribed(self._behind.set)\n", "", "what was missed while away is read"),
        ("lacks_any(self._held_itself())", "lacks_any(self.held())", "a pause outlives a Redis that was emptied"),
        (
            "return self.paused or self._holds_itself(channel_id)",
            "return self._holds_itself(channel_id)",
            "a pause holds",
        ),
    ),
    *of(
        "agent_protocol/wire/subscriptions.py",
        BUS,
        (
            "failures = 0 if self.connected_since is not None else failures + 1",
            "failures = 0",
            "pauses grow while Redis is away",
            "agent_protocol/wire/test_bus.py agent_protocol/connection/test_link.py",
        ),
        ("        self._confirmed.clear()\n", "", "after a loss nothing counts as subscribed"),
        (
            "        self._asked = set()\n        self._confirmed",
            "        self._confirmed",
            "after a loss everything is subscribed again",
        ),
        ("            self._confirmed -= gone\n", "", "what was unsubscribed is not confirmed"),
        (
            "if channel not in self._confirmed:\n            self.ready.clear()",
            "if channel not in self._confirmed:\n            pass",
            "the bus is not ready before a new subscription is",
        ),
        (
            "for callback in self._on_resubscribed:",
            "for callback in self._on_resubscribed[:0]:",
            "who wants to hear of a new connection does",
        ),
        ("            lane.close()\n", "            pass\n", "what waits for a handler that is gone is dropped"),
        (
            "self._loss_said = True",
            "self._loss_said = False",
            "a loss is said once",
            "agent_protocol/wire/test_bus.py agent_protocol/connection/test_link.py",
        ),
        (
            "                await self._expect_answer(connection)",
            "                pass",
            "a peer that vanished without a word is noticed",
        ),
    ),
    *of(
        "agent_protocol/turns/budgets.py",
        BUDGETS,
        ("tonumber(ends) <= now then", "tonumber(ends) <= 0 then", "what a dead process put aside is free again"),
        ("if total > cap then", "if total >= cap then", "the last cent may be spent"),
        ("kind ~= 'mention' and", "", "the last share is for people"),
        ("if kind ~= 'round' then return what, {{}} end", "", "only a round may close a conversation"),
        ('return bool(verdict == "ok")', "return True", "a call that there is no money for is not made"),
        ("cap - self.memory.owed.get((date, scope), 0)", "cap", "what is spent and not written yet counts"),
        ("and redis.call('HSETNX', KEYS[3], 'told:' .. scope, '1') == 1", "", "the owner is told once"),
        ("  redis.call('HDEL', KEYS[4], name)\nend\nif sum", "end\nif sum", "what was settled is not held any more"),
        (
            "caps[scope] * (1 - CLOSING_SHARE)",
            "caps[scope]",
            "what is nearly used up counts as used up",
        ),
        ("near, self._near = self._near, []", "near = self._near", "a notice comes once"),
        ("      cap = cap + raises[#raises]\n", "", "a raise allows what was refused"),
        ("redis.call('HDEL', KEYS[1], 'told:' .. ARGV[1])", "", "the new cap has a notice of its own"),
        ("if cap then cap = cap + raised(KEYS[3], scope) end", "", "the notice is about the raised cap"),
    ),
    *of(
        "agent_protocol/turns/budget_rules.py",
        f"{BUDGETS} agent_cogs/turn/test_turn_costs.py",
        ("math.ceil(dollars * MICRO - 1e-6)", "int(dollars * MICRO)", "a sum that is not zero never counts as nothing"),
        ('(f"person:{person_id}",)', "()", "a person's share is counted"),
        ("self.owed.get((bill.date, scope), 0) + bill.amount", "bill.amount", "what is owed adds up"),
        ('"channel": "budget",', '"channel": "person_budget",', "a channel's budget is told as such"),
        ("kept.until > now}", "kept.until < now}", "what runs stays put aside"),
        ("            cap += self._raised.get((hold.date, scope), 0)\n", "", "a raise counts while Redis is away"),
    ),
    *of(
        "agent_protocol/ledger.py",
        f"{SETTLING} agent_protocol/turns/test_budgets.py",
        ("if not all(math.isfinite(amount) for amount in costs.values())", "if False", "no cost is infinite"),
        (
            "        self.turns.remember(agent, turn_id, result_json, deadline)\n",
            "",
            "a turn that ended while Redis was away is not done again",
        ),
        ("        link.when_back(self.pay)\n", "", "what was kept is written when Redis is back"),
        (
            "        if self.settlements.owes:\n            await self.pay()",
            "        if not self.settlements.owes:\n            await self.pay()",
            "a turn that ended meanwhile is not begun again",
        ),
        ('costs.get("total_cost", 0.0)', "0.0", "what a turn cost counts in the budgets"),
    ),
    *of(
        "agent_protocol/turns/settlement.py",
        SETTLING,
        (
            "            self._keep(ending)\n            return False",
            "            return False",
            "a turn that ended while Redis was away is on the books when it is back",
        ),
        ("        if name in self._kept:\n            return\n", "", "an end is kept once"),
        ("self._budgets.memory.spend(ending.bill)", "pass", "what is kept counts as spent"),
        (
            "ending.record.asked_by == user_id",
            "ending.record.asked_by != user_id",
            "no record is written of a person who is forgotten",
            f"{RECORDS}::test_what_ended_while_redis_was_away_is_recorded_when_it_is_back",
        ),
        ("  redis.call('ZREM', KEYS[5], ARGV[7])\n", "", "a turn that ended is not open"),
        (
            "if redis.call('HSETNX', KEYS[1], 'settled:' .. ARGV[2], '1') == 0 then return {{}} end",
            "redis.call('HSETNX', KEYS[1], 'settled:' .. ARGV[2], '1')",
            "a turn that is ended twice is booked and recorded once",
        ),
        ("if ours and ARGV[8] ~= '' then record", "if ARGV[8] ~= '' then record", "a turn has one record", RECORDS),
    ),
    *of(
        "agent_ids.py",
        "test_agent_ids.py",
        (" + EPOCH_MS) / 1000", ") / 1000", "an id tells when a message was made"),
        (" - EPOCH_MS) <<", ") <<", "an id is made of a time"),
    ),
    *of(
        "agent_protocol/turns/records.py",
        f"{RECORDS} agent_cogs/slash/test_why.py",
        (
            "if message_id in record.posted and self._young(record)",
            "if message_id in record.posted",
            "a record that is too old is not shown",
        ),
        (
            "min=made - BEFORE_MS, max=made + AFTER_MS",
            "min=made, max=made + AFTER_MS",
            "the clocks of Discord and Redis may differ",
        ),
    ),
    *of(
        "agent_protocol/record/appending.py",
        f"{RECORDS} {WRITER}",
        ("- seconds * 1000", "- seconds", "records are kept for a week"),
        (
            "redis.call('DEL', stream) end",
            "return end",
            "another maker's value under the name does not keep records out",
        ),
        ("dropped + 1)\n  if", "1)\n  if", "a reader of the record sees how many entries it lacks"),
    ),
    *of(
        "agent_protocol/record/writer.py",
        WRITER,
        ("each for each in self._waiting if each.size", "each for each in self._waiting", "notes outlive words"),
        ("            self._note_dropped(waiting.stream, 1)\n", "", "what cannot be written is counted"),
        ("each if key in _EXACT else ", "", "a recorded picture can be decoded"),
        ("return redact(value)", "return value", "no secret gets into the record"),
    ),
)
