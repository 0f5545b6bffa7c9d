"""The texts that people read after an action: one per outcome, on all surfaces.

A text marks what each surface shows in its own way: `<#1>` a channel, `<@1>` a person, `<t:1:R>` a time, and `</room
resume>` an action. The surface's Style replaces these marks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentic.actions.base import Outcome
from agentic.rooms.opening import GIVE_UP_SECONDS
from agentic.state.rooms import MAX_DETAILS, MAX_MEMBERS
from agentic.state.turn_records import KEEP_SECONDS

KEEPS_TRYING = f"I'll keep trying for {GIVE_UP_SECONDS // 60} minutes."
DELAYED = "Redis is unavailable, so bots in other processes will only follow once it's back."

TEXTS: Mapping[str, str] = {
    "report": "{text}",
    # every action
    "not_here": "The bots only work in their own channels, and this isn't one of them.",
    "unknown_action": "I don't know that command. Your app may still show an old version of it. Try again in an hour.",
    "failed": "Something went wrong. The owner can find the details in the log.",
    "too_slow": "That took too long, so I canceled it. Please try again later.",
    "form_has_secret": "This file contains a secret or a private path, so it can't be edited here. Edit it on disk.",
    "redis_unavailable": "The bots' shared storage (Redis) is unavailable, so nothing was done. Try again in a minute.",
    "nobody": "The coordinator didn't answer, so this probably wasn't done. Try again in a minute.",
    "coordinator_refused": "The coordinator refused this: {outcome}.",
    "unknown_command": "The coordinator is an older version and doesn't know that command. Ask the owner to update it.",
    "moderators_only": "Only moderators can do that here. Ask one of them.",
    "message_managers_only": "You need the Manage Messages permission for that, because it affects everyone here.",
    "managers_only": "You need the Manage Server permission for that.",
    "owners_only": "Only the bots' owner can do that, because it affects every server the bots are in. If that's you,"
    " set OWNER_USER_IDS={person} in .env and restart the bots. If the bots are only in this server, GUILD_IDS={guild}"
    " works, too.",
    "unknown_value": "There's no {kind} called “{written}”.{more}",
    "missing_value": "{option} is missing.",
    "unknown_option": "There's no option called {option}.",
    "bad_value": "{option} must be {wanted}.",
    # stop, pause, mute, ignore
    "stopped_channel": "The bots are stopped in <#{channel}> for {duration}. Use </resume> to let them speak again.",
    "canceled_replies": "I canceled the bots' answers to you here. Only moderators can stop the bots for all.",
    "resumed": "The bots can speak in <#{channel}> again.",
    "not_stopped": "The bots weren't stopped in <#{channel}>.",
    "resumed_but_paused": "<#{channel}> is no longer stopped, but all bots are paused. Use </bots resume>.",
    "not_stopped_but_paused": "<#{channel}> isn't stopped, but all bots are paused. Use </bots resume>.",
    "parent_stopped": "The bots are stopped in all of <#{channel}>. Use </resume> there.",
    "paused_all": "All bots are paused {where}. Use </bots resume> to let them speak again.",
    "resumed_all": "The pause is over. All bots can speak again.",
    "paused_by_owner": "The bots' owner has paused all bots everywhere, so only the owner can resume them.",
    "not_paused": "The bots weren't paused.",
    "muted_bot": "{agent} is muted {where} for {duration}. It may still finish the message it's writing. Use </bots"
    " unmute> to let it speak again.",
    "unmuted": "{agent} can speak again.",
    "muted_by_owner": "The bots' owner has muted {agent} everywhere, so only the owner can unmute it.",
    "not_muted": "{agent} wasn't muted.",
    "ignored": "The bots now ignore <@{person}> {where}. Use </bots unignore> to undo this.",
    "already_ignored": "The bots already ignore <@{person}>.",
    "too_many_ignored": "The list of ignored people is full. Use </bots unignore> for someone first.",
    "unignored": "The bots listen to <@{person}> again.",
    "ignored_by_owner": "The bots' owner made them ignore <@{person}> everywhere, so only the owner can undo that.",
    "not_ignored": "The bots weren't ignoring <@{person}>.",
    "ignored_by_setting": "IGNORE_USER_IDS makes the bots ignore <@{person}>. Only the owner can change that.",
    "order_ended": "Undone.",
    "no_order": "That was already over.",
    "unknown_order": "“{order}” isn't an order. Orders look like *, a:NAME, or g:SERVER/u:PERSON.",
    "reset": "{agent} starts fresh here and no longer reads earlier messages.",
    "reset_chat": "I'm starting fresh here. I no longer read earlier messages.",
    # why nobody may speak
    "paused": "All bots are paused. Use </bots resume> first.",
    "stopped": "The bots are stopped in <#{channel}>. Use </resume> there first.",
    "muted": "{agent} is muted. Use </bots unmute> first.",
    # conversations
    "started": "A conversation is starting in <#{channel}>.",
    "started_somewhere": "A conversation is starting in a free channel.",
    "next_started": "{agent} is taking a turn in <#{channel}>.",
    "requested": "{agent} speaks next in <#{channel}>, after the current turn.",
    "next_begins": "The next turn in <#{channel}> begins now, or after the current one.",
    "ended": "The conversation in <#{channel}> has ended. A message already being written may still appear.",
    "busy": "A conversation is already running in <#{channel}>.",
    "unknown_channel": "<#{channel}> isn't a channel of the bots.",
    "none_free": "No channel is free for a conversation. Try again later, or end one.",
    "none_running": "No conversation is running in <#{channel}>.",
    "no_agents": "No bot is available for a conversation.",
    "unknown_agent": "The coordinator doesn't know {agent}.",
    "offline": "{agent} is offline.",
    "several_offline": "{agent} are offline.",
    # the schedule and the budget
    "moved": "The conversation planned for <t:{at:.0f}:t> now starts at <t:{to:.0f}:t>.",
    "skipped": "Skipped. No conversation will start at <t:{at:.0f}:t>.",
    "added": "Added. A conversation will start at <t:{at:.0f}:t>.",
    "no_such_time": "There's no longer a conversation scheduled for <t:{at:.0f}:t>.",
    "cannot_move": "That can't be moved: <t:{at:.0f}:t> has passed, or <t:{to:.0f}:t> is already taken.",
    "known_time": "A conversation is already scheduled for <t:{at:.0f}:t>.",
    "full_day": "Today's schedule is full. Skip a time first.",
    "out_of_day": "<t:{to:.0f}:t> has passed, or it isn't today.",
    "raised": "Today's limit is now ${limit:.2f}. Tomorrow it's back to normal.",
    "no_limit": "There's no limit to raise here. To set one, see docs/costs.md.",
    "unknown_scope": "“{scope}” isn't a budget. Write all, agent:NAME, or channel:ID.",
    # /ask, /arena, /why
    "empty_question": "The question is empty. Please write one.",
    "you_are_ignored": "The bots are set to ignore you. Only a server manager or the owner can change that.",
    "no_arena_host": "That needs the main program (`run_all.py`), and it isn't running. Ask the owner to start it.",
    "arena_runs": "An arena is already running in this channel. You can start another when it's over.",
    "arena_opened": "Two hidden bots are answering. Vote with 🅰️ or 🅱️. You'll see who they are when time is up.",
    "no_message": "That isn't a message link or ID. Right-click the message and choose Copy Message Link.",
    "no_record": (
        "I have no record of that message. Maybe none of these bots posted it, or it's more than"
        f" {KEEP_SECONDS // 86400} days old. If it's in a channel that not everyone here can read, ask there."
    ),
    "nothing_posted": "I don't see any message of mine here. Quote one and write </why>.",
    # rooms
    "debate_proposed": "Your proposal appears in <#{channel}> in a moment. The debate begins when {people} or a"
    " moderator react with {sign}.",
    "debate_known": "You've already proposed this debate.",
    "debate_proposed_by_other": "This debate is already proposed in this channel. React to its message with {sign}.",
    "debate_has_one": "You've already proposed a debate. You can propose another when it has begun or ended.",
    "debate_too_soon": "You proposed a debate a short while ago. Try again in an hour.",
    "debate_too_many": "Enough debates are proposed already. React to one of them, or try again later.",
    "no_proposals": "Members can't propose debates here. Ask a moderator to open a room.",
    "no_room": "I can't find that room. Use the command in a room's thread, or name a room by its link or topic."
    " </room list> shows all rooms.",
    "no_rooms": "This server has no rooms yet. Use </room create> to open one.",
    "room_paused": "<#{channel}> is paused. A message already being written may still appear. Use </room resume> to"
    " continue.",
    "room_resumed": "<#{channel}> has resumed.",
    "room_extended": "<#{channel}> now has more turns.",
    "room_locked": "The thread <#{channel}> is still locked. Unlock it first, then use </room resume>.",
    "room_gone": "The thread of the room “{topic}” was deleted, so it can't continue. </room export> still saves it,"
    " and </room delete> deletes its record.",
    "room_closed": "<#{channel}> is closed. A message already being written may still appear. Use </room resume> to"
    " reopen it with more turns.",
    "room_exists": "<#{channel}> is a room already. Use </room resume> to continue it.",
    "not_in_thread": "Use this command in a thread. In a channel, </room create> starts a thread.",
    "room_runs": "<#{channel}> is still running. Use </room close> first.",
    "room_deleted": "I deleted the room “{topic}” and its record. What it cost is still counted. Its thread is still"
    " there: you can delete it in Discord.",
    "room_kept": "I kept the room.",
    "added_member": "{agent} has joined <#{channel}>.",
    "removed_member": "{agent} was removed from <#{channel}>.",
    "not_active": "<#{channel}> isn't running. Use </room resume> first.",
    "already_active": "<#{channel}> is already running. To give it more turns, use </room resume> with `turns`.",
    "already_paused": "<#{channel}> is already paused. Use </room resume> to continue.",
    "already_closed": "<#{channel}> is already closed. Use </room resume> to reopen it with more turns.",
    "already_member": "{agent} is already a member of <#{channel}>.",
    "no_member": "{agent} isn't a member of <#{channel}>.",
    "no_such_member": "{why} Members of <#{channel}>: {members}.",
    "too_few_members": "<#{channel}> has fewer than two members. Use </room add> first.",
    "full": f"<#{{channel}}> already has {MAX_MEMBERS} members, the most that a room can have.",
    "room_busy": "<#{channel}> is just finishing a turn. Try again in a moment.",
    "incomplete": "The coordinator couldn't read that request. Try again.",
    "cannot_take_part": "{agent} can't take part: {reason}.",
    "nothing_recorded": "The history is off (RECORD_DAYS=0), so there's nothing to export.",
    "record_elsewhere": "The history can't be read here. It's on the machine that runs the coordinator.",
    "not_yet_recorded": "<#{channel}> isn't in the history yet. Posts take a few seconds. Try again in a moment.",
    "page_too_large": "The page is too large for Discord. The owner can run `python -m agentic.record export --room`.",
    "room_shared": "Anyone with the link can now read the page of “{topic}”.",
    "room_unshared": "The link to the page of “{topic}” no longer works.",
    "room_not_shared": "This room's page isn't shared.",
    "room_exported": "Here's the room “{topic}” as a page:",
    # opening a room
    "no_bot": "No room was opened: a bot has to create its thread, and none is online here.",
    "no_topic": "The topic is empty. Please write one.",
    "topic_too_long": f"The topic is {{length}} characters long, and the limit is {MAX_DETAILS}. Shorten it.",
    "bad_pace": "Write the pace as live, slow (a turn an hour), a number of seconds, or up to three times of day such"
    " as 09:00 18:00.",
    "no_room_there": "No room can be opened in <#{channel}>: {problem}.",
    "no_webhooks_there": "Personas speak through a webhook in <#{channel}>, but {problem}.",
    "no_such_moderator": "{why} Choose the moderator from the members.",
    "no_such_agent": "{why} Use </agent list> to see all bots and personas.",
    "not_moderated": "Only a room with the policy “moderated” or with a format has a moderator. Choose one of them, or"
    " leave out the moderator.",
    "no_sides": "Only a room with a format has sides. Choose a format, or write the names alone.",
    "poll_without_sides": "Only a debate has sides that people can be asked about. Choose the format “debate”, or leave"
    " out the poll.",
    "no_such_judge": "{why} The judge is a bot, a persona, or a model such as google/gemini-3.8-flash.",
    "cannot_judge": "“{judge}” can't judge: {reason}.",
    "judge_is_member": "{judge} can't judge a debate that it takes part in. Choose another judge.",
    "judge_like_member": "The judge would have the same model as {agent}, {model}. Choose another judge.",
    "several_moderators": "A room has one moderator. Write “moderator” after one name only.",
    "moderator_not_member": "The moderator must be a member of the room.",
    "too_few_named": "A room needs at least two bots or personas. You named {names}.",
    "too_many_named": f"A room can have at most {MAX_MEMBERS} members. You named {{number}}.",
    "too_few_agents": "Fewer than two bots and personas are available right now. </agent list> shows why.",
    "budget_used_up": "Today's budget for {whose} is used up. Try again tomorrow.",
    "choice_expired": "This choice has expired or was already used. Use </room create> again.",
    "not_your_room": "Only the person who asked for this room can choose who takes part.",
    "opening_opened": "The room is open: <#{thread}>, on “{topic}”",
    "opening_just_opened": "This room was just opened: <#{thread}>, on “{topic}”",
    "opening_nobody": (
        "I created the thread <#{thread}>, but the coordinator didn't answer, so the room isn't open yet."
        f" {KEEPS_TRYING}"
    ),
    "opening_away": (
        "I created the thread <#{thread}>, but the bots' shared storage (Redis) is unavailable, so the room isn't open"
        f" yet. {KEEPS_TRYING}"
    ),
    "opening_discord_failed": f"Discord didn't create the thread. {KEEPS_TRYING}",
    "opening_unknown_channel": f"I can't see <#{{channel}}> at the moment. {KEEPS_TRYING}",
    "opening_not_ours": f"Another process has taken over this bot. {KEEPS_TRYING}",
    "opening_not_permitted": "No room was opened: I'm not allowed to post or start threads in <#{channel}>.",
    "opening_refused": "No room was opened: the coordinator refused ({outcome}).",
    "opening_gone": "No room was opened: its channel or its first message was deleted in the meantime.",
    "opening_exists": "No room was opened: somebody else has just made <#{thread}> a room.",
    "opening_paused": "No room was opened: all bots are paused. I had already created the thread <#{thread}>.",
    "opening_stopped": "No room was opened: the bots are stopped in <#{channel}>. I had already created the thread"
    " <#{thread}>.",
    # personas and their files
    "no_persona_files": "Persona files are turned off here.",
    "not_a_persona": "{agent} is a bot, not a persona. Use </agent-file show> and </agent-file edit> for its files.",
    "persona_not_editable": "{agent} can't be edited in a form: {why}.",
    "persona_saved": "Saved {agent}. It uses {model}. Use </room create> to open a room with it.",
    "persona_saved_no_level": "Saved {agent}. It uses {model}, which doesn't have the thinking level “{level}”, so the"
    " level has no effect. Use </room create> to open a room with it.",
    "persona_saved_unable": "Saved {agent}. It can't take part yet: {why}.",
    "persona_saved_unlisted": "Saved. The persona will appear in </agent list> in a moment.",
    "persona_in_room": "{agent} is a member of <#{channel}>. Use </room remove> there first.",
    "persona_deleted": "Deleted {agent}. The owner can restore it from {folder} in the personas folder.",
    "persona_not_deleted": "{agent} wasn't deleted: {why}.",
    "no_such_file": "There's no such persona file.",
    "not_saved": "Not saved: {why}.",
    "file_saved": "Saved {agent}'s {file}. It takes effect with the next message. To see the old version, use"
    " </agent-file show> with back:1.",
    "text_saved": "Saved {agent}'s {file}. It takes effect with the next message.",
    "file_has_problems": "Not saved. Please fix:\n{problems}",
    "file_not_shown": "{agent}'s {file} can't be shown: {why}.",
    "file_not_editable": "{agent}'s {file} can't be edited here: {why}.",
    "file_has_hidden_notes": "{agent}'s {file} has notes that not everyone here may read. Edit it on disk.",
    "file_too_long": "{file} is too long to edit here: {why}. Edit it on disk.",
    # options
    "option_set": "{option} is now {value} {target}{above}.",
    "option_unset": "/config no longer sets {option} {target}. The files and settings apply again.",
    "option_was_not_set": "/config hadn't set {option} {target}, so nothing changed.",
    "option_not_changed": "Nothing changed. {why}",
    "option_not_shown": "{why} </config show> without an option shows all of them.",
    "options_in_file": "{agent}'s options here are in the attached file.",
    "too_many_options": "Too many options are already set with /config. Remove some by setting them to default.",
    "owners_option": "Only the bots' owner can set {option}, because it can cost money or store what people write. If"
    " that's you, set OWNER_USER_IDS={person} in .env and restart the bots.",
    "everywhere_is_the_owners": "Only the bots' owner can set options everywhere, because the bots are in other"
    " servers, too. Choose this channel or this server.",
    # a person's own data
    "in_our_chat": "Other people read this chat. Send me that in a private chat.",
    "how_to_edit_profile": "Write </profile edit> and then your topics, separated by commas.",
    "confirm_forget": "This deletes everything I've stored about you: turn records, notes, your profile, and logged"
    " messages, on Discord, too, if your accounts are linked. It can't be undone. To go ahead, write </forget me> yes",
    "not_all_forgotten": "I couldn't delete everything. Try again in a minute. The owner's log says what's left.",
}

_ACTION = re.compile(r"</([a-z- ]+)>")
_MARK = re.compile(r"<(?:#(\d+)|@!?(\d+)|t:(\d+)(?::\w)?)>")


class Style:
    """How a surface shows marks in texts. This style is Discord's, whose client knows channels, people, and times."""

    texts: Mapping[str, str] = TEXTS

    def action(self, name: str) -> str:
        return f"/{name}"

    def channel(self, channel_id: int) -> str:
        return f"<#{channel_id}>"

    def person(self, user_id: int) -> str:
        return f"<@{user_id}>"

    def time(self, at: int, mark: str) -> str:
        return mark

    def _replace(self, found: re.Match[str]) -> str:
        channel, person, at = found.groups()
        if channel:
            return self.channel(int(channel))
        return self.person(int(person)) if person else self.time(int(at), found[0])

    def text_of(self, outcome: Outcome) -> str:
        """Return an outcome's text. If the coordinator's answer has no text, the answer itself is shown."""
        known = self.texts.get(outcome.code, TEXTS["coordinator_refused"])
        text = _ACTION.sub(lambda found: self.action(found[1]), known)
        text = text.format_map({"outcome": outcome.code, **outcome.fields})
        return _MARK.sub(self._replace, f"{text} {DELAYED}" if outcome.is_delayed else text)
