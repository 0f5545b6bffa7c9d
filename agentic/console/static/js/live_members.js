// The live page's third column, as in Discord: who is in the channel and what they do, its topic, the next times, and
// what it cost today. If a column doesn't fit, a button in the header opens the same as a panel.
import { hindranceLines } from "./agent_state.js";
import { get } from "./api.js";
import { agentName, at, avatar, chip, coloured, fill, h, svg } from "./dom.js";
import { ago, cents, money, seconds, several, soon } from "./format.js";
import { me } from "./me.js";
import { openCard } from "./live_card.js";
import { playButtons } from "./play.js";
import { openPopover } from "./popover.js";

const AGAIN = 15000; // milliseconds between two looks at who is there
const TIMES = 3; // next times shown

export class MembersPanel {
  constructor(session, channel) {
    this.session = session;
    this.channel = channel;
    this.members = [];
    this.today = null;
    this.node = h("aside", { class: "members", "aria-label": "In this channel" });
    this.button = h("button", { type: "button", class: "quiet icon members-button", "aria-label": "Members", title: "Members", "aria-haspopup": "dialog", onclick: () => this.open() },
      svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 20c.4-4 2.8-6 6.5-6s6.1 2 6.5 6M16 4.5a3.5 3.5 0 0 1 0 6.3M18.5 14.5c1.8.8 2.8 2.7 3 5.500" })));
    this.look = () => this.read().catch(() => {}); // the next look comes; the banner says that the program isn't responding
    this.timer = setInterval(this.look, AGAIN);
    window.addEventListener("acted", this.look);
    this.look();
  }

  close() {
    clearInterval(this.timer);
    window.removeEventListener("acted", this.look);
  }

  async read() {
    const { items, today } = await get(`api/live/channels/${this.channel.id}/members`);
    this.members = items;
    this.today = today;
    this.show();
  }

  open() {
    const panel = h("div", { class: "stack members-panel" });
    this.opened = panel;
    this.show();
    openPopover(this.button, `In #${this.channel.name}`, () => panel);
  }

  // Once a second and with each change; what looks the same stays, so that a button keeps the focus.
  show() {
    for (const place of [this.node, this.opened]) {
      if (!place) continue;
      const made = h("div", { class: "stack" }, this.parts());
      if (place.firstChild?.isEqualNode(made)) continue;
      const focused = place.contains(document.activeElement) && document.activeElement.dataset.agent;
      fill(place, made);
      if (focused) place.querySelector(`[data-agent="${CSS.escape(focused)}"]`)?.focus();
    }
  }

  parts() {
    const { situation } = this.session, id = this.channel.id;
    const talk = situation.conversations[id], room = situation.rooms[id];
    return [this.about(talk, room), ...this.groups(talk), this.times(situation.times, talk), this.cost(),
      h("section", { class: "stack" }, h("h2", null, "Play"), playButtons(this.channel))];
  }

  about(talk, room) {
    const topic = room?.topic || talk?.topic;
    return h("section", { class: "stack" }, h("h2", null, room ? "Room" : "Topic"),
      h("p", { dir: "auto", class: topic ? "members-topic" : "muted" }, topic || (talk ? "The bots choose one as they talk." : "No conversation is running.")),
      h("div", { class: "row" }, chip(talk?.theme || this.channel.theme), room && h("a", { href: `#/room/${this.channel.id}` }, `turn ${room.turn} of ${room.turns}`)));
  }

  groups(talk) {
    const rows = { "Taking a turn": [], "Online": [], "Personas": [], "Offline": [] };
    for (const member of this.members) {
      const [kind, words] = this.doing(member, talk);
      const group = kind === "taking" ? "Taking a turn" : member.persona ? "Personas" : member.online || Object.values(member.accounts).some(Boolean) ? "Online" : "Offline";
      rows[group].push(memberRow(member, kind, words));
    }
    const shown = Object.entries(rows).filter(([, list]) => list.length).map(([name, list]) =>
      h("section", null, h("h2", null, `${name} — ${list.length}`), h("ul", { class: "member-list" }, list)));
    const { person } = this.session;
    if (person) shown.push(h("section", null, h("h2", null, "People — 1"), h("ul", { class: "member-list" }, h("li", { class: "member" }, h("div", { class: "member-row" }, h("span", { class: "member-face good" }, avatar(undefined, person.name)), h("span", null, h("b", null, person.name), h("small", null, "you")))))));
    return shown;
  }

  // What a member does now: a kind for its dot, and words.
  doing(member, talk) {
    const thinking = this.session.situation.thinking.filter(({ agent }) => agent === member.agent);
    const here = thinking.find(({ channel }) => channel === this.channel.id);
    if (here) return ["taking", `is thinking${since(here)}${here.ahead > 0 ? ` · ${here.ahead} ahead` : ""}`];
    if (talk?.speaker === member.agent) return ["taking", "has the turn"];
    const [hindrance] = hindranceLines(member);
    if (hindrance) return [member.muted_until ? "warn" : "bad", member.muted_until ? `muted until ${soon(member.muted_until)}` : shortened(member, hindrance)];
    if (talk?.coming[0] === member.agent) return ["good", "is next"];
    if (thinking.length) return ["good", `is thinking in ${this.session.nameOf(thinking[0].channel)}`];
    const words = member.persona ? "speaks in rooms" : `${several(member.turns_today + member.turns_free, "turn")} today`;
    return [member.persona ? "accent" : "good", words];
  }

  times(times, talk) {
    if (me.paused || (!times.length && talk)) return null;
    return h("section", null, h("h2", null, "Next conversations"), times.length
      ? h("ul", { class: "plain" }, times.slice(0, TIMES).map((unix) => h("li", { class: "row apart" }, at(unix), h("small", null, ago(unix)))))
      : h("p", { class: "muted" }, "Nothing else is scheduled today."), h("p", null, h("a", { href: "#/schedule" }, "Schedule")));
  }

  cost() {
    if (!this.today) return null;
    const { spent, reserved, cap } = this.today, used = spent + reserved;
    return h("section", null, h("h2", null, "Cost today"), h("p", null, h("b", { class: "number" }, spent ? cents(spent) : "$0"), h("span", { class: "muted" }, cap === null ? " in this channel" : ` of ${cents(cap)} for this channel`)),
      cap !== null && h("span", { class: "meter-bar", role: "meter", "aria-label": "Budget of this channel", "aria-valuemin": 0, "aria-valuemax": cap, "aria-valuenow": used, "aria-valuetext": `${money(used)} of ${money(cap)}` }, h("span", { style: { width: `${cap ? Math.min(1, used / cap) * 100 : 100}%` } })));
  }
}

function since({ since: began }) {
  const passed = Math.floor(Date.now() / 1000 - began);
  return passed > 0 ? ` · ${seconds(passed)}` : "";
}

// A few words for a narrow column; its card has the sentence.
function shortened(member, line) {
  if (member.failure) return "its bot failed";
  if (member.why_not) return "can’t speak";
  if (member.backoff_until > Date.now() / 1000) return "rejected by its provider";
  if (!member.online) return "offline";
  return typeof line === "string" ? line : "can’t speak now";
}

function memberRow(member, kind, words) {
  const open = (event) => openCard(event.currentTarget, member.agent);
  return coloured(h("li", { class: "member" }, h("button", { type: "button", class: "member-row quiet", dataset: { agent: member.agent }, "aria-haspopup": "dialog", onclick: open },
    h("span", { class: `member-face ${kind}` }, avatar(member.agent, member.name)),
    h("span", null, h("b", { class: "agent-name" }, agentName(member.agent)), h("small", { class: "clamp" }, words)))), member.agent);
}
