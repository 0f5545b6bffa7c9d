// The live page's header: the channel, its conversation, and the owner's actions.
import { act, channelActions, stopDialog } from "./actions.js";
import { agentInline, agentName, chip, fill, h, svg } from "./dom.js";
import { clock, soon } from "./format.js";
import { me } from "./me.js";
import { pullsButton } from "./pulls.js";

export class LiveHead {
  // `choose()` shows the list of channels if it doesn't fit beside the chat; `members` opens the list of members.
  constructor(session, channel, choose, members) {
    this.session = session;
    this.toggle = h("button", { class: "quiet icon toggle", "aria-label": "Channels", "aria-expanded": "false", onclick: choose }, "☰");
    this.title = h("h1", null);
    this.line = h("p", { class: "live-line" });
    this.actions = h("div", { class: "live-actions" });
    this.quick = h("div", { class: "quick-stop" });
    this.pulls = pullsButton(channel.id);
    const more = h("button", { class: "quiet icon more-actions", "aria-label": "Actions", "aria-expanded": "false", onclick: () => more.setAttribute("aria-expanded", String(this.node.classList.toggle("acting"))) }, "⋯");
    this.node = h("header", { class: "live-head" }, this.toggle, h("div", { class: "live-title" }, this.title, h("div", { class: "live-about" }, this.line, this.pulls.node)), this.quick, members, more, this.actions);
  }

  show(channel) {
    const { situation } = this.session;
    const running = situation.conversations[channel.id] || null;
    const room = situation.rooms?.[channel.id] || null;
    const stop = this.session.stopOf(channel);
    const speaker = running?.speaker ?? null;
    if (speaker !== this.speaker) {
      this.speaker = speaker;
      this.pulls.look();
    }
    const theme = running?.theme || channel.theme;
    fill(this.title, h("span", { class: "muted", "aria-hidden": "true" }, "#"), h("bdi", null, channel.name), theme !== channel.name && chip(theme));
    fill(this.line, stop && chip(`stopped until ${soon(stop.until)}`, "bad"), muted(situation), this.#conversation(channel, running, room));
    const state = JSON.stringify([Boolean(running), stop, Boolean(room), me.paused, situation.mutes]);
    if (state !== this.state) {
      this.state = state;
      const steer = h("a", { class: "button", href: `#/room/${channel.id}` }, "Manage the room");
      fill(this.quick, !room && quickStop(channel.id, stop));
      fill(this.actions, room ? steer : channelActions({ ...channel, running: Boolean(running), stop, muted: situation.mutes }));
    }
  }

  #conversation(channel, running, room) {
    if (room && (!running || room.status !== "active")) return h("span", { class: "clamp" }, roomLink(channel.id), ` · ${room.status === "active" ? "running" : room.status} · turn ${room.turn} of ${room.turns}`, room.why && ` · ${room.why}`);
    if (!running) return idle(this.session.situation.times);
    if (room?.slot_until) return h("span", { class: "clamp" }, roomLink(channel.id), ` · turn ${room.turn} of ${room.turns} · open to its audience until ${clock(room.slot_until)}`);
    const order = [running.speaker, ...running.coming].filter(Boolean);
    const parts = [
      room ? h("span", null, roomLink(channel.id), ` · turn ${room.turn} of ${room.turns}`) : running.single ? "One turn, on request" : running.joins ? "The bots are joining a conversation between people" : `Round ${running.round} of at most ${this.session.mostRounds}`,
      !room && running.topic && h("span", { class: "topic", dir: "auto" }, `“${running.topic}”`),
      order.length > 0 && [agentInline(order[0]), running.speaker ? " has the turn" : " is next", order.length > 1 && [", then ", order.slice(1).flatMap((agent, index) => [index ? ", " : "", agentInline(agent)])]],
    ].filter(Boolean);
    return h("span", { class: "clamp" }, parts.flatMap((part, index) => (index ? [" · ", part] : [part])));
  }
}

function quickStop(id, stop) {
  const icon = svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: stop ? "M8 5l11 7-11 7z" : "M7 7h10v10H7z" }));
  const name = stop ? "Resume" : "Stop", run = () => (stop ? act("resume", { channel: stop.channel }) : stopDialog(id));
  return h("button", { type: "button", class: `icon ${stop ? "primary" : "danger"}`, "aria-label": name, title: name, onclick: run }, icon);
}

const roomLink = (id) => h("a", { href: `#/room/${id}` }, "Room");

function idle([next, after]) {
  return h("span", { class: "clamp" }, "No conversation is running · ", h("a", { href: "#/schedule" }, next ? ["Next at ", soon(next), after && [", then ", soon(after)]] : "Schedule"));
}

function muted(situation) {
  return Object.entries(situation.mutes).map(([agent, until]) => chip(`${agentName(agent)} is muted until ${soon(until)}`, "warn"));
}
