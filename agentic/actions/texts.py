"""What people read when an action has ended: one text per outcome, for every surface.

A text names what a surface shows in its own way by Discord's marks: `<#1>` a channel, `<@1>` a person, `<t:1:R>` a
time, and `</room resume>` an action. The Style of a surface replaces them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentic.actions.base import Outcome
from agentic.rooms.opening import GIVE_UP_SECONDS
from agentic.state.rooms import MAX_MEMBERS, MAX_TURNS, MIN_MEMBERS
from agentic.state.turn_records import KEEP_SECONDS
from agentic.wire.messages import MAX_TOPIC

KEEPS_TRYING = f"I'll keep trying for {GIVE_UP_SECONDS // 60} minutes."
DELAYED = "Redis is unavailable: bots in other processes learn of this when it is back."

TEXTS: Mapping[str, str] = {
    "report": "{text}",
    # every action
    "not_here": "The bots only work in their own channels, and this isn't one of them.",
    "unknown_action": "I don't know that command. Discord refreshes its list within an hour; please try again then.",
    "failed": "Something went wrong. The owner finds the details in the log.",
    "too_slow": "That took too long and was canceled. Try again in a while.",
    "form_has_secret": "This file contains a secret or a private path, so it can't be edited here. Edit it on disk.",
    "redis_unavailable": "The bots' shared storage (Redis) is unavailable, so nothing was done. Try again in a minute.",
    "nobody": "No coordinator answers: it isn't running, or it's busy. As far as we know, nothing was done.",
    "coordinator_refused": "The coordinator refused: {outcome}.",
    "unknown_command": "The coordinator is older than this bot and doesn't know that command. Update it.",
    "moderators_only": "Only people who may manage messages here can do that. Ask a moderator.",
    "message_managers_only": "You need the Manage Messages permission for that, because it concerns everyone here.",
    "managers_only": "You need the Manage Server permission for that.",
    "owners_only": (
        "Only the bots' owner can do that, because it changes something in all servers of the bots. If that is you, set"
        " OWNER_USER_IDS={person} in .env and restart the bots. If the bots are in this server only, GUILD_IDS={guild}"
        " works too."
    ),
    "unknown_value": "There is no {kind} called “{written}”.{more}",
    "missing_value": "{option} is missing.",
    "unknown_option": "There is no option {option}.",
    "bad_value": "{option} must be {wanted}.",
    # stop, pause, mute, ignore
    "stopped_channel": "The bots are silent in <#{channel}> for {duration}. Use </resume> to let them speak again.",
    "canceled_replies": "I canceled the bots' answers to you here. Only moderators can silence the bots for everyone.",
    "resumed": "The bots may speak in <#{channel}> again.",
    "not_stopped": "The bots weren't stopped in <#{channel}>.",
    "resumed_but_paused": "<#{channel}> is no longer stopped, but all bots are paused. Use </bots resume>.",
    "not_stopped_but_paused": "<#{channel}> isn't stopped, but all bots are paused. Use </bots resume>.",
    "parent_stopped": "The bots are stopped in all of <#{channel}>. Use </resume> there.",
    "paused_all": "All bots are paused {where}. Use </bots resume> to let them speak again.",
    "resumed_all": "All bots are back: the pause has ended.",
    "paused_by_owner": "The bots' owner has paused all bots everywhere, so only the owner can resume them.",
    "not_paused": "The bots weren't paused.",
    "muted_bot": (
        "{agent} is muted {where} for {duration}. It may still finish the message it is writing. Use"
        " </bots unmute> to let it speak again."
    ),
    "unmuted": "{agent} may speak again.",
    "muted_by_owner": "The bots' owner has muted {agent} everywhere, so only the owner can unmute it.",
    "not_muted": "{agent} wasn't muted.",
    "ignored": "The bots now ignore <@{person}> {where}. Use </bots unignore> to undo this.",
    "already_ignored": "The bots already ignore <@{person}>.",
    "too_many_ignored": "The list of ignored people is full. Use </bots unignore> for somebody first.",
    "unignored": "The bots listen to <@{person}> again.",
    "ignored_by_owner": "The bots' owner has them ignore <@{person}> everywhere, so only the owner can end that.",
    "not_ignored": "The bots weren't ignoring <@{person}>.",
    "ignored_by_setting": "The setting IGNORE_USER_IDS names <@{person}>. Only the owner can change it.",
    "order_ended": "The order has ended.",
    "no_order": "The order had ended already.",
    "unknown_order": "“{order}” isn't an order: it looks like *, a:NAME, or g:SERVER/u:PERSON.",
    "reset": "{agent} starts fresh here: earlier messages are no longer context.",
    "reset_chat": "I start fresh here: earlier messages are no longer context.",
    # why nobody may speak
    "paused": "All bots are paused. Use </bots resume> first.",
    "stopped": "The bots are stopped in <#{channel}>. Use </resume> there first.",
    "muted": "{agent} is muted. Use </bots unmute> first.",
    # conversations
    "started": "A conversation starts in <#{channel}>.",
    "started_somewhere": "A conversation starts in a free channel.",
    "next_started": "{agent} has a turn in <#{channel}>.",
    "requested": "{agent} speaks next in <#{channel}>, after the current turn.",
    "ended": "The conversation in <#{channel}> has ended. A message that is being written may still appear.",
    "busy": "A conversation is already running in <#{channel}>.",
    "unknown_channel": "<#{channel}> isn't one of the bots' channels.",
    "none_free": "No channel is free for a conversation. Try again later, or end one.",
    "none_running": "No conversation is running in <#{channel}>.",
    "no_agents": "No bot is available for a conversation.",
    "unknown_agent": "The coordinator doesn't know {agent}.",
    "offline": "{agent} is offline.",
    "several_offline": "{agent} are offline.",
    # the schedule and the budget
    "moved": "The conversation of <t:{at:.0f}:t> begins at <t:{to:.0f}:t> instead.",
    "skipped": "There will be no conversation at <t:{at:.0f}:t>.",
    "added": "A conversation begins at <t:{at:.0f}:t>.",
    "no_such_time": "No conversation is scheduled for <t:{at:.0f}:t> anymore.",
    "cannot_move": "<t:{at:.0f}:t> is over, or <t:{to:.0f}:t> is taken already.",
    "known_time": "A conversation is already scheduled for <t:{at:.0f}:t>.",
    "full_day": "Today's schedule is full. Skip a time first.",
    "out_of_day": "<t:{to:.0f}:t> is over, or not today.",
    "raised": "Today's limit is ${limit:.2f} now. Tomorrow it is as before.",
    "no_limit": "There is no limit to raise here. docs/costs.md says how to set one.",
    "unknown_scope": "“{scope}” isn't a budget: write all, agent:NAME, or channel:ID.",
    # /ask, /arena, /why
    "empty_question": "The question is empty.",
    "you_are_ignored": "The bots are set to ignore you.",
    "no_arena_host": "Arenas need a running `run_all.py`, and there is none. The owner can start it.",
    "arena_runs": "An arena is already running in this channel. The next one can begin when its names are shown.",
    "arena_opened": "Two agents answer without their names. Vote with 🅰️ or 🅱️. The names are shown when the time is up.",
    "no_message": "That isn't a message link or ID. Right-click the message and choose Copy Message Link.",
    "no_record": (
        f"There is no record of that message: no bot here posted it, it is over {KEEP_SECONDS // 86400} days old, or it"
        " is in a channel that not everyone here can read (then ask there)."
    ),
    "nothing_posted": "I haven't posted anything here that I know of. Quote a message of mine and write </why>.",
    # rooms
    "no_room": (
        "There is no such room here. Use the command in a room's thread, or name a room by its link or topic."
        " </room list> shows them."
    ),
    "no_rooms": "There is no room in this server yet. </room create> opens one.",
    "room_paused": "<#{channel}> is paused. The message being posted may still appear. </room resume> continues it.",
    "room_resumed": "<#{channel}> continues.",
    "room_closed": (
        "<#{channel}> is closed. The message being posted may still appear. Use </room resume> to reopen it with more"
        " turns."
    ),
    "added_member": "{agent} takes part in <#{channel}> from now on.",
    "removed_member": "{agent} no longer takes part in <#{channel}>.",
    "not_active": "<#{channel}> isn't running. Use </room resume> first.",
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
    "nothing_recorded": "The record is off (RECORD_DAYS=0), so there is nothing to export.",
    "record_elsewhere": "The record can't be read here. It is on the machine that runs the coordinator.",
    "not_yet_recorded": "Nothing of <#{channel}> is recorded yet. Posts are in the record a few seconds later.",
    "page_too_large": "The page is too large for Discord. Run `python -m agentic.record export --room` instead.",
    "room_exported": "The room “{topic}” as a page:",
    # opening a room
    "no_bot": "No room was opened: no bot of this process is online, and a bot makes the thread of a room.",
    "no_topic": "The topic is empty.",
    "topic_too_long": (
        f"The topic is {{length}} characters long, and {MAX_TOPIC} is the most. Shorten it, and put the details into"
        " the rules: </room create> without a topic opens a form that has them."
    ),
    "bad_turns": f"The number of turns must be a whole number from {MIN_MEMBERS} to {MAX_TURNS}.",
    "no_room_there": "No room can be opened in <#{channel}>: {problem}.",
    "no_webhooks_there": "Personas speak through a webhook in <#{channel}>, but {problem}.",
    "no_such_moderator": "{why} Choose the moderator from the members.",
    "no_such_agent": "{why} Use </agent list> to see who there is.",
    "not_moderated": "Nobody moderates with this policy. Choose the policy moderated, or leave the moderator out.",
    "moderator_not_member": "The moderator has to be one of the members.",
    "too_few_named": "A room needs at least two bots or personas; {names} is named.",
    "too_many_named": f"A room has at most {MAX_MEMBERS} members; {{number}} are named.",
    "too_few_agents": "Fewer than two bots and personas can take part at present. </agent list> says why.",
    "budget_used_up": "Today's budget of {whose} is used up.",
    "choice_expired": "This choice has expired or was used already. Use </room create> again.",
    "not_your_room": "Only the person who asked for this room can choose who takes part.",
    "opening_opened": "The room is open: <#{thread}>, on “{topic}”",
    "opening_nobody": (
        f"The thread <#{{thread}}> is there, but no coordinator answered, so the room isn't open yet. {KEEPS_TRYING}"
    ),
    "opening_away": (
        "The thread <#{thread}> is there, but the bots' shared storage (Redis) is unavailable, so the room isn't open"
        f" yet. {KEEPS_TRYING}"
    ),
    "opening_discord_failed": f"Discord didn't create the thread. {KEEPS_TRYING}",
    "opening_unknown_channel": f"I can't see <#{{channel}}> at the moment. {KEEPS_TRYING}",
    "opening_not_ours": f"Another process has taken over this bot. {KEEPS_TRYING}",
    "opening_not_permitted": "Discord refused: I may not post or start threads in <#{channel}>. No room was opened.",
    "opening_refused": "The coordinator refused: {outcome}. No room was opened.",
    "opening_gone": "The channel or the message of the room was deleted in the meantime. No room was opened.",
    "opening_paused": "All bots are paused. The thread <#{thread}> is there, but no room was opened.",
    "opening_stopped": (
        "The bots are stopped in <#{channel}>. The thread <#{thread}> is there, but no room was opened."
    ),
    # personas and their files
    "no_persona_files": "This installation reads no persona files.",
    "not_a_persona": "{agent} is a bot, not a persona. Use </agent-file show> and </agent-file edit> for its files.",
    "persona_not_editable": "{agent} can't be edited in a form: {why}.",
    "persona_saved": "Saved {agent}, which uses {model}. </room create> opens a room with it.",
    "persona_saved_unable": "Saved {agent}. It can't take part yet: {why}.",
    "persona_saved_unlisted": "Saved, but the persona is not in the list yet; </agent list> shows it in a moment.",
    "persona_in_room": "{agent} takes part in <#{channel}>. Use </room remove> there first.",
    "persona_deleted": "Deleted {agent}. The owner finds its files in {folder} of the folder of personas.",
    "persona_not_deleted": "{agent} was not deleted: {why}.",
    "no_such_file": "There is no such persona file.",
    "not_saved": "Not saved: {why}.",
    "file_saved": "Saved {file} of {agent}. It takes effect with the next message; its history has the old version.",
    "file_has_problems": "Not saved. Please correct:\n{problems}",
    "file_not_shown": "{file} of {agent} can't be shown: {why}.",
    "file_not_editable": "{file} of {agent} can't be edited here: {why}.",
    "file_has_hidden_notes": "{file} of {agent} has notes that not everyone here may read. Edit it on disk.",
    "file_too_long": "{file} is too long to edit here: {why}. Edit it on disk.",
    # options
    "option_set": "{option} is {value} {whom} from now on{above}.",
    "option_unset": "{option} is no longer set by /config {whom}: files and settings apply again.",
    "option_was_not_set": "{option} was not set by /config {whom}.",
    "option_not_changed": "Nothing was changed. {why}",
    "option_not_shown": "{why} </config show> without an option shows all of them.",
    "options_in_file": "The options of {agent} here are in the file.",
    "too_many_options": "Too many options are set by /config already. Take some back with the value default.",
    "owners_option": (
        "Only the bots' owner may set {option}, because it costs money or keeps what people write. If that is you, set"
        " OWNER_USER_IDS={person} in .env and restart the bots."
    ),
    "everywhere_is_the_owners": (
        "Only the bots' owner may set options everywhere, because the bots are in other servers too. Choose this"
        " channel or this server."
    ),
    # a person's own data
    "in_our_chat": "Other people read this chat. Write that to me in a private chat.",
    "how_to_edit_profile": "Write </profile edit> and all topics I may note about you, with commas between them.",
    "confirm_forget": (
        "This removes what I keep about you: records, notes, your profile, the log of your messages, here and on"
        " Discord if you are linked. It can't be undone. Write </forget me> yes"
    ),
    "not_all_forgotten": "Not everything could be removed; the owner's log says what is left. Try again in a minute.",
}

_ACTION = re.compile(r"</([a-z- ]+)>")
_MARK = re.compile(r"<(?:#(\d+)|@!?(\d+)|t:(\d+)(?::\w)?)>")


class Style:
    """How a surface shows what a text names; this one is Discord's, whose client knows channels, people, and times."""

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
        """Return the text of an outcome. A word of the coordinator's that has none is shown as it is."""
        known = TEXTS.get(outcome.code, TEXTS["coordinator_refused"])
        text = _ACTION.sub(lambda found: self.action(found[1]), known)
        text = text.format_map({"outcome": outcome.code, **outcome.fields})
        return _MARK.sub(self._replace, f"{text} {DELAYED}" if outcome.is_delayed else text)
