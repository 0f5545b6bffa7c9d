"""Mistakes in agent_context, agent_personas and agent_tools."""

from __future__ import annotations

from tests.mutants.mutant import of

WINDOW = "agent_context/selecting/test_window.py"
HISTORY = "agent_context/selecting/test_history.py"
RENDER = (
    "agent_context/layout/test_render.py agent_context/layout/test_render_properties.py agent_context/test_untrusted.py"
)
UNTRUSTED = "agent_context/test_untrusted.py agent_context/layout/test_render_properties.py"
PREFILL = "agent_context/layout/test_prefill.py"
MEMORY = "agent_personas/test_persona_memory.py"
STORE = "agent_personas/test_persona_store.py agent_personas/test_workspace.py"
CRON = "agent_personas/schedules/test_persona_schedules.py properties/test_persona_schedule_properties.py"
LOOP = "agent_tools/test_loop.py agent_tools/test_prefill_tools.py"

IN_PROMPTS = (
    *of(
        "agent_context/build.py",
        "agent_context/test_build.py",
        ("if entry.id > upto and", "if", "a person who was answered is not answered again"),
        (" and not self._calls_one(entry))", ")", "a message that calls an agent is left to it"),
        ("if entry.id <= upto), None)", "), None)", "only an answered message is called answered"),
    ),
    *of(
        "agent_context/selecting/window.py",
        WINDOW,
        ("return tuple(entries[-BACKDROP:])", "return tuple(entries)", "a conversation that begins has a backdrop"),
        ("max(0, before - BACKDROP)", "max(0, before)", "a conversation is seen with what came before it"),
        ("start = 0 if whole and depth", "start = 0 if depth", "a new window begins where a cut would"),
        ("fresh > kept + kept // 4", "fresh > kept", "a deletion alone makes no new window"),
        ("        head[-1].closed = True\n", "        pass\n", "what stands before a history is closed"),
        ("frozenset(late)", "frozenset()", "what a tool brought is shown once"),
        ("return None if _ids(prefix) != laid.prefix else", "return", "another prefix is another window"),
        ('notes.append(Note(now, "reactions"))', "pass", "a later reaction is noted"),
        (
            "max(0, len(entries) - 1 - marker_depth)",
            "max(0, len(entries) - marker_depth)",
            "the marker stands where it is to",
        ),
    ),
    *of(
        "agent_context/selecting/history.py",
        HISTORY,
        (
            "return upto[ids.index(interval.first) :] if interval.first in ids else upto",
            "return upto",
            "an interval begins where it says",
        ),
        ("[-messages:]\n    ids", "[:messages]\n    ids", "an interval's newest messages are shown"),
        (
            "if entry.id <= interval.last]\n        if len",
            "if entry.id < interval.last]\n        if len",
            "an interval ends with the message that it names",
        ),
        (
            "prefix, body = [*prefix, *body, *found], []",
            "prefix, body = [*body, *found], []",
            "several histories stand one after the other",
        ),
        ("if e.id not in own}", "}", "no message stands twice"),
        ("or not may_command(entry, self.roles)", "", "only who may command names a history"),
        (
            "command.first.channel == command.last.channel",
            "command.first.channel != command.last.channel",
            "a beginning in another channel is none",
        ),
    ),
    *of(
        "agent_context/layout/render.py",
        RENDER,
        (
            "if created_at <= cut_at else after",
            "if created_at >= cut_at else after",
            "times lie before and after the cut",
        ),
        (
            "if reaction.count > max(1, len(reaction.by))",
            "if reaction.count > 1",
            "who is named is not counted besides",
        ),
        ('own_notes=entry.speaker.kind == "agent")', "own_notes=True)", "a person writes no notes of the program"),
        ("timed=time != before", "timed=True", "the same time is not told again"),
        ('return f"\\n{INDENT}".join', 'return "\\n".join', "only the program begins a line at the margin"),
        ('return f"{speaker.name} (another bot)"', "return speaker.name", "a stranger is named as one"),
        ("if seconds >= size:", "if seconds > size:", "an hour is an hour"),
        ("(reply to msg:{entry.reply_to})", "(reply to msg:{entry.id})", "a reply tells to what"),
    ),
    *of(
        "agent_context/untrusted.py",
        UNTRUSTED,
        ("\\u202a-\\u202e", "\\u202a-\\u202b", "no mark turns text around"),
        (
            ".translate(_LOOKALIKES).translate(_LOOKALIKES)",
            ".translate(_LOOKALIKES)",
            "a look-alike of a look-alike is known",
        ),
        ("agent and agent in alike", "agent == alike", "a name that holds an agent's is known"),
        (".split())[:limit].rstrip()", ".split()).rstrip()", "a short piece is short"),
        (".casefold()\n    plain = unicodedata", "\n    plain = unicodedata", "a name is known in any case of letters"),
    ),
    *of(
        "agent_context/steering/options.py",
        "agent_context/steering/test_options.py agent_cogs/persona/test_persona_options.py"
        " agent_cogs/persona/test_option_files.py",
        ("{**before, **value} if both", "{**value, **before} if both", "a later layer is over an earlier one"),
        ('tools = narrowed(tools, pin["tools"])', 'tools = pin["tools"]', "a pin takes tools away and adds none"),
        (
            "allowed is not None and key not in allowed",
            "allowed is not None and key in allowed",
            "a pin sets what it may",
        ),
        (
            "return min(wanted, LARGEST_STEP) if",
            "return max(wanted, LARGEST_STEP) if",
            "a window grows to twice its size at most",
            "agent_context/steering/test_options.py agent_context/selecting/test_window.py",
        ),
        (
            '*("model", "history_roles", "config_roles", "custom_fields")',
            '*("model", "history_roles", "custom_fields")',
            "no pin says who may pin",
        ),
    ),
    *of(
        "agent_context/layout/prefill.py",
        PREFILL,
        ("for name in others[:stop_names])", "for name in others)", "so many names end a completion as are set"),
        (
            "for entry in reversed(entries) if entry",
            "for entry in entries if entry",
            "who spoke last ends the completion first",
        ),
        ("return completion.strip()", "return completion", "no white space stands around the words"),
        (
            '{memory_part(context)}",',
            '",',
            "the notes are in prefill mode too",
            f"{PREFILL} agent_context/layout/test_persona_part.py agent_context/test_golden.py",
        ),
        (
            'return "\\n".join((first, *(line[1:] if line.startswith("\\\\") and',
            'return "\\n".join((first, *(line if line.startswith("\\\\") and',
            "what was escaped is posted as it was",
        ),
    ),
    *of(
        "agent_personas/safe_files.py",
        STORE,
        ("                os.fsync(descriptor)\n", "", "a file is on the disk when it is written"),
        ("        os.fsync(folder)\n", "", "a file's name is on the disk when it is written"),
        ("if len(data) > limit:", "if len(data) > limit + 1:", "a file has a largest size"),
        ("os.O_NOFOLLOW, dir_fd=current)", "0, dir_fd=current)", "no link leads out of the folder"),
        (
            "                    os.fchmod(descriptor, mode)",
            "                    pass",
            "an owner's rights outlive an edit",
        ),
        (
            "                os.unlink(temporary, dir_fd=folder)",
            "                pass",
            "what failed leaves nothing behind",
        ),
        ('data.decode("utf-8-sig")', 'data.decode("utf-8")', "a byte order mark is no text"),
    ),
    *of(
        "agent_personas/memory.py",
        MEMORY,
        (
            "if not block.people or block.people | entry.people == block.people:",
            "if block.people | entry.people == block.people:",
            "what nobody is known for stays so",
        ),
        ("block.people or {UNKNOWN}}", "block.people}", "who is not known stays in what is written over"),
        (
            "for block in gone for channel in block.channels or ()",
            "for block in gone[:1] for channel in block.channels or ()",
            "what is written over keeps the channels it came from",
        ),
        ("*blocks[:start], *kept, *new,", "*blocks[:start], *new,", "what the writer cannot see stays"),
        ("if len(exact or found) > 1", "if len(found) > 1", "exactly these words are the entry that is meant"),
        (
            "if seen and not block.level and wanted",
            "if not block.level and wanted",
            "nobody forgets what they cannot see",
        ),
        (
            "block.words == entry.words and block.channels == entry.channels",
            "block.words == entry.words",
            "the same words of another channel are another entry",
        ),
        ("if sum(map(len, lines)) > MAX_ENTRY", "if max(map(len, lines)) > MAX_ENTRY", "an entry has a largest size"),
    ),
    *of(
        "agent_personas/memory_blocks.py",
        MEMORY,
        (
            "all(may_see(channel) for channel in channels)",
            "any(may_see(channel) for channel in channels)",
            "what came from several channels is told where all may be read",
        ),
        ("channels is not None and all", "channels is None or all", "a mark that cannot be understood hides"),
        ("(not hidden or block.level <= hidden)", "(not hidden)", "a hidden section ends with the next one"),
    ),
    *of(
        "agent_personas/schedules/hooks.py",
        "agent_cogs/automation/test_hooks.py",
        ('"instruction", "reflection"})', '"instruction", "reflection", "hook"})', "hooks have no hooks"),
    ),
    *of(
        "agent_personas/schedules/cron.py",
        CRON,
        ("and not job.catch_up", "and job.catch_up", "what was missed by far is caught up only where it is wanted"),
        ("if at > after:", "if at != after:", "an hour that comes twice runs once"),
        ("if moment > now:", "if moment >= now:", "what is due now runs now"),
        ("last = now - PUNCTUAL_SECONDS", "last = now", "after a clock that was wrong what is due runs"),
        (
            "            newest = moment\n",
            "            newest = newest or moment\n",
            "of several missed moments the newest counts",
        ),
        ("if len(fields.split()) != 5", "if len(fields.split()) > 6", "five fields are wanted"),
    ),
    *of(
        "agent_tools/call_runner.py",
        LOOP,
        (
            "and not record.is_error",
            "",
            "a call that failed is made again after a crash",
            f"{LOOP} agent_cogs/turn/test_tool_turns.py",
        ),
        ("if key not in self._done:", "if True:", "a call is made once in a turn"),
        (
            "self.idle = 0 if brought else self.idle + 1",
            "self.idle = 0",
            "who asks the same again and again is stopped",
        ),
        ("min(self.limits.call_seconds, self.ends", "max(self.limits.call_seconds, self.ends", "a call has its bound"),
        ("- self.limits.answer_seconds - self.clock()", "- self.clock()", "there is time left to answer after a call"),
        ("calls[: self.limits.calls]", "calls", "no more calls at once than allowed"),
        ("[: limits.pictures]", "", "no more pictures than allowed"),
        (
            "self.ended = self.ended or output.ends_turn",
            "self.ended = output.ends_turn",
            "one call that ends the turn ends it",
        ),
        ("sort_keys=True, default=str", "default=str", "the same arguments in another order are the same"),
    ),
    *of(
        "agent_tools/loop.py",
        LOOP,
        ("self._depth < self._max_depth", "self._depth <= self._max_depth", "so many answers may call tools"),
        ("        self.usage += reply.usage\n", "        self.usage = reply.usage\n", "what all calls cost adds up"),
        (
            "and await self._may_go_on()",
            "",
            "without money there is no further call",
            f"{LOOP} agent_cogs/turn/test_tool_turns.py",
        ),
        (
            "            if self._runner.ended:\n                return replace(reply, tool_calls=())\n",
            "",
            "a tool that ends the turn ends it",
        ),
        ("runner.characters < limits.turn_characters", "True", "a turn's results have a bound"),
        ("min(prompt.timeout, left)", "prompt.timeout", "each call has the time that is left"),
    ),
    *of(
        "agent_llm/wire/tool_calls.py",
        LOOP,
        ("            pictures += result.pictures\n", "", "pictures that tools brought are seen"),
    ),
    *of(
        "agent_tools/arguments.py",
        "agent_tools/test_arguments.py",
    ),
)
