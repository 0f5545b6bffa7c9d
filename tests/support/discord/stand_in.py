"""The Discord stand-in with all that can happen on a server: what people, other bots and the gateway do.

Authors and channels are given by name or id, messages by id or by the dict that an earlier call returned. No permission
is checked here.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from aiohttp import web

from agentic.local.discord import channels, messages, payloads, server
from agentic.local.discord.dialogs import Interaction
from agentic.local.discord.gateway import INVALID_SESSION, Session
from agentic.local.discord.interactions import COMPLETION, MESSAGE, TEXT, Json, find_command, slash_data
from agentic.local.discord.messages import Draft
from agentic.local.discord.rest import RestCall, RestEndpoint, json_response
from agentic.local.discord.rest_guilds import make_webhook, webhook_author
from agentic.local.discord.server import PREFIX, File, MessageRef, draft_of_text
from agentic.local.discord.world import DM, ApiError, BotApplication, Channel, Event, Member, Message, User, World
from tests.support.discord import refusals, rest_setup
from tests.support.discord.faults import RECONNECT, Faults, FaultyGateway, RequestInfo, RestFault
from tests.support.discord.rate_limits import Limiter, RateLimits, bucket_of

T = TypeVar("T")

_MAX_RECORDS = 5000


@dataclass(frozen=True, slots=True)
class TypingEvent:
    bot: str | None  # key of the bot, None for a person
    user_id: int
    channel_id: int


class DiscordStandIn(server.DiscordStandIn):
    """Methods that post return the message as a dict, as REST shows it.

    `faults` may be changed at any time, `limiter.limits` too (None enforces none). `counts` has "requests", each status
    as text ("429"), and each "METHOD route"; `unknown_requests` are (method, path) of those that the stand-in does not
    know. A REST request passes, in this order: faults, authentication, rate limits, its handler.
    """

    def __init__(
        self, world: World, *, port: int = 0, limits: RateLimits | None = None, history_limit: int = 2000
    ) -> None:
        super().__init__(world)
        self.port, self.world.history_limit = port, history_limit
        self.faults, self.limiter = Faults(), Limiter(limits, world.clock)
        self.gateway: FaultyGateway = FaultyGateway(self.world, self.faults)
        self.counts: Counter[str] = Counter()
        self.unknown_requests: list[tuple[str, str]] = []
        self.typing_events: deque[TypingEvent] = deque(maxlen=_MAX_RECORDS)
        self.extra_routes: list[web.RouteDef] = []  # added when the server starts
        self._requests: deque[RequestInfo] = deque(maxlen=_MAX_RECORDS)
        self._watchers: list[Callable[[], None]] = []

    @property
    def online(self) -> set[str]:
        """Keys of the bots that are connected to the gateway and identified."""
        return {s.app.key for s in self.gateway.sessions.values() if s.connection is not None}

    @property
    def requests(self) -> list[RequestInfo]:
        """The newest requests, oldest first."""
        return list(self._requests)

    def reset_counts(self) -> dict[str, int]:
        """Forget the requests so far; return their counts."""
        before = dict(self.counts)
        self.counts.clear()
        self._requests.clear()
        return before

    def _add_routes(self, router: web.UrlDispatcher) -> None:
        super()._add_routes(router)
        router.add_routes(self.extra_routes)
        for endpoint in rest_setup.ENDPOINTS:
            router.add_route(endpoint.method, PREFIX + endpoint.path, self._handler_of(endpoint))

        def refuse(call: RestCall) -> Any:
            self.unknown_requests.append((call.request.method, call.request.path))
            raise ApiError(404, 0, "404: Not Found")

        router.add_route("*", "/api/{tail:.*}", self._handler_of(RestEndpoint("*", "/{tail:.*}", refuse, open=True)))

    async def _respond(self, call: RestCall, endpoint: RestEndpoint) -> web.Response:
        request, app = call.request, self.world.app_by_token(call.request.headers.get("Authorization", "")[4:])
        info = RequestInfo(
            method=request.method,
            path=request.path.removeprefix(PREFIX),
            route=endpoint.path,
            bot=app.key if app else None,
            headers=dict(request.headers),
        )
        half_way = self.faults.rest_delay / 2
        if half_way:
            await asyncio.sleep(half_way)
        fault = self.faults.take(info)
        response = None
        if fault is not None:
            response = await self._fail(call, endpoint, fault)
        elif self.faults.on_request is not None:
            if not request.content_type.startswith("multipart/"):
                await request.read()  # a hook may hold the request until its sender is gone
            answer = self.faults.on_request(info)
            response = await answer if inspect.isawaitable(answer) else answer
        if response is None:
            response = await self._limited(call, endpoint)
        if half_way:
            await asyncio.sleep(half_way)
        info.status, info.time, info.payload = response.status, self.world.clock(), call.payload
        self._requests.append(info)
        self.counts.update(("requests", str(response.status), f"{info.method} {info.route}"))
        self._evaluate()
        return response

    async def _fail(self, call: RestCall, endpoint: RestEndpoint, fault: RestFault) -> web.Response:
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.cut:
            response = await self._limited(call, endpoint) if fault.cut == "after" else json_response(500)
            if call.request.transport is not None:
                call.request.transport.abort()
            return response
        if fault.status is None:
            return await self._limited(call, endpoint)
        if fault.late:
            await self._limited(call, endpoint)
        body = {"message": "made to fail", "code": 0} if fault.body is None else fault.body
        return json_response(fault.status, body, fault.headers)

    async def _limited(self, call: RestCall, endpoint: RestEndpoint) -> web.Response:
        """Answer within the limits. A request without a valid token does not count against one."""
        path = call.request.match_info
        major = next((path[name] for name in ("channel_id", "guild_id", "webhook_id") if name in path), "")
        try:
            caller = major if endpoint.open else call.app.key
        except ApiError:
            return await self._checked(call, endpoint)
        bucket = bucket_of(endpoint.method, endpoint.path)
        check = self.limiter.check(caller, bucket, major, counts_globally=not endpoint.open)
        if check.retry_after is not None:
            text = "You are being rate limited."
            body = {"message": text, "retry_after": check.retry_after, "global": check.is_global}
            return json_response(429, body, check.headers)
        response = await self._checked(call, endpoint)
        response.headers.update(check.headers)
        return response

    async def _checked(self, call: RestCall, endpoint: RestEndpoint) -> web.Response:
        """Answer unless Discord would refuse the request."""

        async def handle(call: RestCall) -> Any:
            refused = await refusals.refuse(call, endpoint)
            answer = endpoint.handler(call) if refused is None else refused
            return await answer if inspect.isawaitable(answer) else answer

        return await super()._respond(call, replace(endpoint, handler=handle))

    def _publish(self, event: Event) -> None:
        super()._publish(event)
        if event.name == "TYPING_START":
            user = self.world.users[int(event.data["user_id"])]
            bot = next((key for key, app in self.world.apps.items() if app.user is user), None)
            self.typing_events.append(TypingEvent(bot, user.id, int(event.data["channel_id"])))
        self._evaluate()

    def _evaluate(self) -> None:
        for watcher in list(self._watchers):
            watcher()

    async def wait_for(self, predicate: Callable[[], T], timeout: float = 30) -> T:  # noqa: ASYNC109
        """Return the predicate's first truthy value.

        It is evaluated now, after each event and request, and every 10 ms, so that it may also depend on things outside
        of the server. Its errors are raised here. Raises TimeoutError after timeout seconds, with a description of the
        situation.
        """
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def evaluate() -> None:
            if done.done():
                return
            try:
                value = predicate()
            except Exception as error:  # raised by wait_for, which was given the predicate
                done.set_exception(error)
            else:
                if value:
                    done.set_result(value)

        async def tick() -> None:
            while True:
                await asyncio.sleep(0.01)
                evaluate()

        self._watchers.append(evaluate)
        ticking = asyncio.create_task(tick(), name="discord stand-in: wait_for")
        try:
            evaluate()
            return await asyncio.wait_for(done, timeout)
        except TimeoutError:
            if done.done() and not done.cancelled():
                raise  # the predicate's own
            recent = "; ".join(f"{r.bot} {r.method} {r.path} {r.status}" for r in self.requests[-8:])
            newest = [m for c in self.world.channels() for m in list(c.messages.values())[-3:]]
            said = "; ".join(f"{m.author.display_name}: {m.content[:60]!r}" for m in newest[-8:])
            online = f"Online: {sorted(self.online) or 'none'}. Last requests: {recent or 'none'}"
            raise TimeoutError(f"not within {timeout:g} s. {online}. Messages: {said or 'none'}") from None
        finally:
            self._watchers.remove(evaluate)
            ticking.cancel()

    async def say(self, author: int | str, channel: int | str, text: str, **more: Any) -> dict[str, Any]:
        with server._as_value_error():
            refusals.require_post(self.world, self.world.user(author).id, self.world.channel(channel))
        return await super().say(author, channel, text, **more)

    async def react(
        self,
        author: int | str,
        channel: int | str,
        message: MessageRef,
        emoji: str,
        given: bool = True,
        *,
        burst: bool = False,
    ) -> bool:
        with server._as_value_error():
            refusals.require_unarchived(self.world.channel(channel))
        return await super().react(author, channel, message, emoji, given, burst=burst)

    async def pin(self, author: int | str, channel: int | str, message: MessageRef, pinned: bool = True) -> bool:
        with server._as_value_error():
            refusals.require_unarchived(self.world.channel(channel))
        return await super().pin(author, channel, message, pinned)

    async def say_as_webhook(
        self, name: str, channel: int | str, text: str, *, attachments: Sequence[File] = ()
    ) -> dict[str, Any]:
        """Post through a webhook that none of our bots created, under any name."""
        place = self.world.channel(channel)
        parent = self.world.channel(place.parent_id) if place.parent_id else place
        foreign = (w for w in self.world.webhooks.values() if w.channel_id == parent.id and w.application_id is None)
        webhook = next(foreign, None) or make_webhook(self.world, parent, "Captain Hook", None, None)
        draft = draft_of_text(text, attachments)
        draft.webhook_id = webhook.id
        return self._payload(messages.post(self.world, place, webhook_author(webhook, name), draft))

    async def say_as_foreign_bot(
        self, name: str, channel: int | str, text: str, *, reply_to: MessageRef | None = None
    ) -> dict[str, Any]:
        """Post as a foreign bot, under any name, also that of one of ours."""
        ours = {app.user.id for app in self.world.apps.values()}
        found = next((u for u in self.world.users.values() if u.bot and u.username == name and u.id not in ours), None)
        return await self.say((found or self._foreign_bot(name)).id, channel, text, reply_to=reply_to)

    def _foreign_bot(self, name: str) -> User:
        user = User(self.world.new_id(), name, bot=True)
        self.world.users[user.id] = user
        self._join(user)
        return user

    async def add_person(self, name: str) -> dict[str, Any]:
        """A new member of the first guild."""
        user = channels.add_person(self.world, name)
        self._join(user)
        return payloads.user(user)

    def _join(self, user: User) -> None:
        guild = self.world.guild
        member = guild.members[user.id] = Member(user, joined_at=self.world.clock())
        body = {**payloads.member(member), "guild_id": str(guild.id)}
        self.world.emit("GUILD_MEMBER_ADD", body, guild_id=guild.id)

    async def leave(self, person: int | str, *, banned: bool = False) -> None:
        """Let a person leave the first guild, or ban them with their messages of the last day. Their reactions and
        answers to polls stay, as in Discord. Bots get these events only with the intents for members and moderation."""
        user, guild = self.world.user(person), self.world.guild
        del guild.members[user.id]
        body = {"guild_id": str(guild.id), "user": payloads.user(user)}
        if banned:
            self.world.emit("GUILD_BAN_ADD", body, guild_id=guild.id)
        self.world.emit("GUILD_MEMBER_REMOVE", body, guild_id=guild.id)
        for place in guild.channels.values():
            if user.id in place.thread_members:
                place.thread_members.remove(user.id)
                members = {"member_count": len(place.thread_members), "removed_member_ids": [str(user.id)]}
                ids = {"id": str(place.id), "guild_id": str(guild.id)}
                self.world.emit("THREAD_MEMBERS_UPDATE", {**ids, **members}, place)
            last_day = self.world.clock() - 86400
            said = [m.id for m in place.messages.values() if m.author.id == user.id and m.timestamp >= last_day]
            if banned and said:
                self._delete_in_bulk(place, said)

    async def send(self, author: int | str, channel: int | str, draft: Draft, *, kind: int = 0) -> dict[str, Any]:
        """Post any draft as a person, or Discord's own notice about one of them (`kind` is the message's type)."""
        place, who = self.world.channel(channel), self.world.user(author)
        return self._payload(messages.post(self.world, place, who, replace(draft, type=kind)))

    async def forward(
        self, author: int | str, channel: int | str, source: int | str, message: MessageRef
    ) -> dict[str, Any]:
        """Forward a message of the channel `source`."""
        place = self.world.channel(source)
        original = self._message(place, message)
        taken = {"content", "embeds", "attachments", "components", "sticker_items", "mentions", "mention_roles"}
        taken |= {"type", "flags", "timestamp", "edited_timestamp"}
        shown = self._payload(original)
        snapshot = {"message": {key: shown[key] for key in taken if key in shown}}
        reference = {**messages.reference(place, original), "type": 1}
        target, who = self.world.channel(channel), self.world.user(author)
        draft = Draft(reference=reference, more={"message_snapshots": [snapshot]})
        built = messages.build(self.world, target, who, draft)
        built.type, built.mentions = 0, []
        self.world.remember(target, built)
        body = payloads.gateway_message(self.world, built, target)
        self.world.emit("MESSAGE_CREATE", body, target)
        return self._payload(built)

    async def unfurl(self, channel: int | str, message: MessageRef, *embeds: Json) -> None:
        """Add previews of a message's links, which Discord does a moment after the message."""
        place = self.world.channel(channel)
        target = self._message(place, message)
        target.embeds = list(embeds)
        body = payloads.gateway_message(self.world, target, place)
        self.world.emit("MESSAGE_UPDATE", body, place)

    async def edit(self, channel: int | str, message: MessageRef, text: str) -> dict[str, Any]:
        place = self.world.channel(channel)
        target = self._message(place, message)
        messages.edit(self.world, place, target, {"content": text})
        return self._payload(target)

    async def delete(self, channel: int | str, *which: MessageRef) -> None:
        """Delete one message, or several in one bulk event."""
        place = self.world.channel(channel)
        ids = [self._message(place, m).id for m in which]
        if len(ids) == 1:
            messages.delete(self.world, place, ids[0])
        else:
            self._delete_in_bulk(place, ids)

    def _delete_in_bulk(self, place: Channel, ids: Sequence[int]) -> None:
        for message_id in ids:
            self.world.forget(place, message_id)
        body = {"ids": [str(number) for number in ids], **messages.place(place)}
        self.world.emit("MESSAGE_DELETE_BULK", body, place)

    async def clear_reactions(self, channel: int | str, message: MessageRef, emoji: str | None = None) -> None:
        """Remove all reactions, or all of one emoji."""
        place = self.world.channel(channel)
        target = self._message(place, message)
        body = {**messages.place(place), "message_id": str(target.id)}
        if emoji is None:
            target.reactions.clear()
            self.world.emit("MESSAGE_REACTION_REMOVE_ALL", body, place)
            return
        kind = messages.parse_emoji(self.world, emoji)
        if target.reactions.pop(kind, None) is not None:
            self.world.emit("MESSAGE_REACTION_REMOVE_EMOJI", {**body, "emoji": payloads.emoji(*kind)}, place)

    async def start_typing(self, author: int | str, channel: int | str) -> None:
        """Let a person type."""
        messages.publish_typing(self.world, self.world.channel(channel), self.world.user(author).id)

    async def create_channel(self, name: str, topic: str | None = None) -> dict[str, Any]:
        channel = channels.add_channel(self.world, self.world.guild, name, topic)
        body = payloads.channel(self.world, channel)
        self.world.emit("CHANNEL_CREATE", body, channel)
        return body

    async def change_channel(self, channel: int | str, **fields: Any) -> dict[str, Any]:
        """Set fields of the Channel record (name, topic, overwrites, archived, locked) and publish it."""
        place = self.world.channel(channel)
        for name, value in fields.items():
            setattr(place, name, value)
        channels.publish_change(self.world, place)
        return payloads.channel(self.world, place)

    async def delete_channel(self, channel: int | str) -> None:
        """Delete a channel, its threads first, or one thread."""
        place, guild = self.world.channel(channel), self.world.guild
        for thread in [one for one in guild.channels.values() if one.is_thread and one.parent_id == place.id]:
            await self.delete_channel(thread.id)
        for message_id in list(place.messages):
            self.world.forget(place, message_id)
        body = payloads.channel(self.world, place)
        if place.is_thread:
            body = {key: body[key] for key in ("id", "guild_id", "parent_id", "type")}
        self.world.emit("THREAD_DELETE" if place.is_thread else "CHANNEL_DELETE", body, place)
        del self.world.guilds[place.guild_id or 0].channels[place.id]

    async def create_thread(
        self, author: int | str, channel: int | str, name: str, message: MessageRef | None = None
    ) -> dict[str, Any]:
        parent = self.world.channel(channel)
        start = None if message is None else self._message(parent, message)
        thread = channels.create_thread(self.world, parent, name, self.world.user(author), message=start)
        return payloads.channel(self.world, thread)

    async def change_role(self, role: int | str, **fields: Any) -> dict[str, Any]:
        """Set fields of the Role record (name, permissions, mentionable) and publish it."""
        record = self.world.role(role)
        for name, value in fields.items():
            setattr(record, name, value)
        guild = next(g for g in self.world.guilds.values() if record.id in g.roles)
        body = {"guild_id": str(guild.id), "role": payloads.role(record)}
        self.world.emit("GUILD_ROLE_UPDATE", body, guild_id=guild.id)
        return payloads.role(record)

    async def open_direct(self, person: int | str, bot: str) -> int:
        """The id of the DM between a person and a bot, which is created if there is none."""
        people = sorted((self.world.app(bot).user.id, self.world.user(person).id))
        known = (channel.id for channel in self.world.direct.values() if channel.recipients == people)
        new = Channel(self.world.new_id(), None, f"dm-{bot}-{person}", type=DM, recipients=people)
        return next(known, None) or self.world.direct.setdefault(new.id, new).id

    async def type_option(
        self, author: int | str, channel: int | str, bot: str, command: str, option: str, typed: str
    ) -> Interaction:
        """Type an option of a slash command. What the bot offers for it appears in what is returned."""
        place, app = self.world.channel(channel), self.world.app(bot)
        options = [{"name": option, "type": TEXT, "value": typed, "focused": True}]
        data = slash_data(self.world, place, app, command, options)
        return self._use(author, place, app, data, COMPLETION)

    async def interact_on(
        self, author: int | str, channel: int | str, bot: str, command: str, message: MessageRef
    ) -> Interaction:
        """Use a command of a message's menu."""
        place, app = self.world.channel(channel), self.world.app(bot)
        target = self._message(place, message)
        return self._use(author, place, app, message_data(self.world, place, app, command, target))

    def user_of(self, bot: str) -> dict[str, Any]:
        """A bot's user as Discord shows it."""
        return payloads.user(self.world.app(bot).user)

    async def send_event(self, bot: str, name: str, data: Any) -> None:
        """Send a bot's gateway sessions any event, also one that Discord never would."""
        for session in self._sessions(bot):
            session.send(name, json.dumps(data))

    async def drop_gateway(self, bot: str, code: int | None = None) -> None:
        """Cut a bot's gateway connection, or close it with a code. The bot may resume."""
        for session in self._sessions(bot):
            connection, session.connection = session.connection, None
            if connection is not None and code is None:
                connection.abort()
            elif connection is not None and code is not None:
                await connection.close(code)

    async def reconnect_gateway(self, bot: str) -> None:
        """Send op 7, which asks the bot to reconnect and resume."""
        for session in self._sessions(bot):
            if session.connection is not None:
                session.connection.send_op(RECONNECT)

    async def invalidate_session(self, bot: str, resumable: bool = False) -> None:
        """Send op 9. A session that is not resumable is dropped, so that a resume is refused."""
        for session in self._sessions(bot):
            if session.connection is not None:
                session.connection.send_op(INVALID_SESSION, resumable)
            if not resumable:
                del self.gateway.sessions[session.id]

    def _sessions(self, bot: str) -> list[Session]:
        return [session for session in self.gateway.sessions.values() if session.app.key == bot]


def message_data(world: World, channel: Channel, app: BotApplication, name: str, target: Message) -> Json:
    """The data of a command in a message's menu."""
    command = find_command(app, channel, name, MESSAGE)
    resolved = {"messages": {str(target.id): payloads.message(world, target)}}
    return {"id": command["id"], "name": name, "type": MESSAGE, "target_id": str(target.id), "resolved": resolved}
