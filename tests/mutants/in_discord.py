"""Mistakes in agent_discord and agent_net."""

# ruff: noqa: E501

from __future__ import annotations

from tests.mutants.mutant import of

GATE = "agent_discord/rest/test_gate.py"
WEBHOOKS = "agent_discord/posting/test_webhooks.py"
OUTLET = "agent_discord/test_outlet.py"
TRANSCRIPT = "agent_chat/test_transcript.py"
FETCHING = "agent_discord/reading/test_reading_history.py"

IN_DISCORD = (
    *of(
        "agent_discord/rest/rate_limit.py",
        GATE,
        (
            "while len(self._passed) >= self.limit",
            "while len(self._passed) > self.limit",
            "no more than 50 requests a second",
        ),
    ),
    *of(
        "agent_discord/rest/outbound.py",
        GATE,
        ("replied_user=False)", "replied_user=True)", "a reply pings nobody"),
        (
            "everyone=False, roles=False",
            "everyone=False, roles=True",
            "no role is pinged",
            f"{GATE} agent_discord/test_one_way_out.py",
        ),
        ("digest_size=12)", "digest_size=13)", "a nonce has at most 25 characters"),
        ('f"{turn_id}/{chunk}"', 'f"{turn_id}"', "each part of a post has its own nonce", f"{GATE} {OUTLET}"),
        ("(text, MAX_TEXT - 2)", "(text, MAX_TEXT)", "an answer to a command is no longer than a message"),
        ("embed if clean == shown else discord.Embed.from_dict(clean)", "embed", "no secret leaves in an embed"),
        (
            "file.filename = self.redact(file.filename)",
            "file.filename = (file.filename)",
            "no secret leaves in a file's name",
        ),
    ),
    *of(
        "agent_discord/rest/gate.py",
        GATE,
        ("username=self.clean(name)", "username=name", "no secret leaves in a webhook's name", GATE),
        ("text = self.clean(text) if text", "text = text if text", "no secret leaves in a post", GATE),
        (
            "        self._check_open(answers=answers)  # it may",
            "        pass  # it may",
            "what waits in line does not pass a gate that has closed",
            f"{GATE} agent_discord/rest/test_rate_limit.py",
        ),
        (
            "        await asyncio.sleep(RETRY_PAUSE)",
            "            raise",
            "a post and an edit whose connection broke are sent once more",
            f"{GATE} agent_discord/rest/test_retries.py agent_discord/posting/test_streaming_post.py",
        ),
        ("< TYPING_SECONDS:", "> TYPING_SECONDS:", "typing is shown once in eight seconds"),
        (
            "if len(page) < PIN_PAGE or",
            "if",
            "all pages of pins are read",
            "agent_chat/test_pins.py agent_discord/rest/test_gate.py agent_discord/test_outlet.py",
        ),
        (
            "ephemeral=not public",
            "ephemeral=public",
            "an answer to a command is its user's alone",
            "flows/test_commands_flow.py agent_discord",
        ),
    ),
    *of(
        "agent_discord/posting/webhooks.py",
        WEBHOOKS,
        ("(place)) if webhook.token)", "(place)))", "a webhook without a token is not used"),
        ("min(ours, key", "max(ours, key", "the oldest webhook of ours is used"),
        (
            "if _is_gone(error) and self._known.get(place.id) is webhook:",
            "if False:",
            "a deleted webhook is made once more",
        ),
        (
            "if not place.permissions_for(place.guild.me).manage_webhooks",
            "if False",
            "without the right no webhook is asked for",
        ),
        ("await self._posts.add(channel_id, message_id, agent)", "pass", "what our webhooks posted is known"),
        ("LIMIT - length(_MORE))[0]", "LIMIT)[0]", "a webhook's post fits with the note of its cut"),
        (
            "channel.parent if isinstance(channel, discord.Thread) else channel",
            "channel",
            "a thread's posts go by its channel's webhook",
        ),
        (
            "async with self._locks.setdefault(place.id, asyncio.Lock()):",
            "if True:",
            "a channel gets one webhook, however many ask at once",
        ),
        (
            "if not _is_gone(error):\n                raise",
            "if _is_gone(error):\n                raise",
            "only a deleted webhook is made anew",
        ),
    ),
    *of(
        "agent_discord/channel_sink.py",
        OUTLET,
        ("if message_id not in transcript or not (", "if not (", "no reaction to a message of another channel"),
        (
            "permissions.add_reactions and permissions.read_message_history",
            "permissions.add_reactions",
            "a reaction that may not be given is not asked for",
        ),
        (
            "transcript.react(message_id, emoji, me.id, clean_name(me.display_name), bot=True)",
            "pass",
            "a reaction of its own is in the transcript",
        ),
        (
            "if message.author.id == me and message.id > after",
            "if message.id > after",
            "only own posts are taken for a post made earlier",
        ),
        (
            "embeds=permissions_in(self._channel).embed_links",
            "embeds=True",
            "without the right no embed is sent",
        ),
        (
            "if self._streaming is not None and self._streaming.turn_id == turn_id else None",
            "if self._streaming is not None else None",
            "a growing post is ended by its own turn",
            f"{WEBHOOKS}::test_a_streaming_post_is_not_completed_by_another_turn",
        ),
        (
            "            await parts.trim(0)",
            "            pass",
            "what has grown of nothing is taken back",
            f"{WEBHOOKS}::test_a_withdrawn_streaming_post_is_deleted",
        ),
    ),
    *of(
        "agent_discord/channel_view.py",
        OUTLET,
        (
            "not (rights.view_channel and rights.read_message_history)",
            "not rights.view_channel",
            "a history is not read where the bot may not",
            f"{OUTLET} agent_discord/reading/test_history_cache.py",
        ),
    ),
    *of(
        "agent_chat/splitting.py",
        "agent_chat/test_splitting.py properties/test_gateway_answers.py",
        (
            "% 2 == 0\n        return not continues(after)",
            "% 2 == 1\n        return not continues(after)",
            "no flag is cut in two",
        ),
        (
            'return len(text.encode("utf-16-le", "surrogatepass")) // 2',
            "return len(text)",
            "astral characters count twice",
        ),
        ("worth = at + (end - at) // 4", "worth = at", "a short beginning is no message of its own"),
        (
            "return end + 1 if self._text[end : end + 1].isspace() else end",
            "return self._past_space(end)",
            "indentation in code outlives a cut",
        ),
        (
            "excess = self._takes(at, cut) - room",
            "excess = 0",
            "a closed block fits into the message",
        ),
        (
            "body = self._text[at:end].rstrip()",
            "body = self._text[at:end].strip()",
            "indentation at a chunk's beginning stays",
        ),
        ("last < 0 or place >= self._fences[last] + len(FENCE)", "True", "a fence is not cut in two"),
    ),
    *of(
        "agent_discord/objects/mentions.py",
        "agent_discord/objects/test_mentions.py agent_discord/objects/test_mentions_properties.py properties/test_gateway_prompts.py",
        ('r"(?!-?\\w)"', 'r"(?!\\w)"', "#general-x is not #general"),
        ("re.IGNORECASE)", "0)", "a name is known in any case of letters"),
        ("sorted(exact, key=len, reverse=True)", "sorted(exact, key=len)", "the longest name is meant"),
        (
            "parts[::2] = [pattern.sub(replacement, part) for part in parts[::2]]",
            "parts[:] = [pattern.sub(replacement, part) for part in parts]",
            "what stands in code is no mention",
        ),
        ("else None\n    return found", "else user_id\n    return found", "a name that two have is nobody's"),
    ),
    *of(
        "agent_chat/names.py",
        "agent_chat/test_transcript_names.py properties/test_gateway_prompts.py",
        ("[,:]?(?=\\s|\\Z)", "(?=\\s|\\Z)", "a comma goes with the mention that begins a message"),
        (
            "(?:{mention})(?:[ \\t]*+(?:{mention}))*+",
            "(?:{mention})",
            "several mentions at a line's end leave no gap",
        ),
        (
            "(?:(?<![ \\t])[ \\t]++)?(?:{mention})(?:",
            "\\s*(?:{mention})(?:",
            "line breaks before a mention stay",
        ),
        ("elif category not in _INVISIBLE and marks", "elif marks", "what cannot be seen is not in a name"),
    ),
    *of(
        "agent_chat/transcript.py",
        TRANSCRIPT,
        (
            "if entry.id in self._entries or entry.id in self._deleted:",
            "if entry.id in self._entries:",
            "a deleted message stays away",
        ),
        ("self.cut_back(self._ids[-self.depth])", "self.cut_back(self._ids[-1])", "the newest messages are kept"),
        (
            "bisect_right(self._ids, message_id) :]",
            "bisect_left(self._ids, message_id) :]",
            "a message does not come after itself",
        ),
        ("edited=known.edited or said.text != known.text", "edited=known.edited", "an edit is known"),
        ("self._channels.move_to_end(channel_id)", "pass", "the least recently used channel is dropped"),
        ("        self._ids.remove(message_id)\n", "        pass\n", "what is forgotten is in no list"),
        (
            "if not self.begins:\n            self.whole = self.was_whole = False",
            "self.whole = self.was_whole = False",
            "a channel that is known from its beginning is whole however deep",
        ),
        (
            "self.was_whole, self.gap_after = True, self.newest",
            "self.was_whole = True",
            "where a gap begins is known",
            f"{TRANSCRIPT} {FETCHING}",
        ),
        (
            "[*tallies] if emoji is None",
            "[] if emoji is None",
            "reactions that were cleared are gone",
        ),
        ("if known != entry:", "if True:", "an edit that four bots deliver is reported once"),
        ("if new:\n", "if True:\n", "a deletion that four bots deliver is reported once"),
        (
            "if entry is not None and entry.webhook:",
            "if entry is not None:",
            "only a webhook's post turns out to be ours",
            f"{TRANSCRIPT} {WEBHOOKS} agent_discord/reading/test_gateway.py",
        ),
    ),
    *of(
        "agent_discord/reading/history.py",
        FETCHING,
        ("transcript.note_gap()", "pass", "messages that were missed are read"),
        (
            "transcript.whole = transcript.depth == depth",
            "transcript.whole = True",
            "who wants more meanwhile gets more",
        ),
        ("before = page[-1].id", "before = page[0].id", "pages go back"),
        ("timeout=TURN_WAIT", "timeout=None", "a turn waits a short while at most"),
        (
            "self._tasks.get(channel_id) or self._start(channel_id, reader, pins)\n        if task is not None:\n            await asyncio.wait((task,), timeout",
            "self._start(channel_id, reader, pins)\n        if task is not None:\n            await asyncio.wait((task,), timeout",
            "a channel has one reader",
        ),
    ),
    *of(
        "agent_net/addresses.py",
        "agent_net/test_addresses.py",
        ('        "169.254.0.0/16",', '        "169.254.0.0/24",', "the cloud's metadata is not asked"),
        ('        "100.64.0.0/10",', '        "100.64.0.0/16",', "no carrier's network is asked"),
        ("not in _ISATAP", "is not None", "no IPv4 address inside of an IPv6 one is asked"),
        ("if url.port not in ports", "if url.port in ()", "only ports of the web are asked"),
        ('or "\\\\" in text', "", "an address with a backslash is none"),
        ("_NUMBER.fullmatch(labels[-1])", "_NUMBER.fullmatch(labels[0])", "a number in disguise is none"),
        ("len(labels) == 1 or any", "any", "a name without a dot is of a home"),
        ("address.scope_id is not None or ", "", "an address with a zone is not asked"),
    ),
    *of(
        "agent_net/picture_fetcher.py",
        "agent_net/test_picture_fetcher.py",
        ("max(width, height) > MAX_SIDE or ", "", "a picture has a longest side"),
        ("width * height > MAX_PIXELS", "width + height > MAX_PIXELS", "a picture has a largest area"),
        (
            'if address.scheme != "https" or address.port != 443',
            'if address.scheme != "https"',
            "only the usual port is asked",
        ),
        (
            "if address.raw_host not in self._hosts",
            "if not address.raw_host",
            "only Discord's hosts are asked for pictures",
        ),
        ("if data is None:", "if True:", "a picture is fetched once"),
    ),
)
