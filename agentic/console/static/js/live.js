// The live page: the channels as a chat, what goes on in them, and in local mode a box to write in.
import { channelActions } from "./actions.js";
import { act } from "./api.js";
import { agentName, at, avatar, chip, coloured, empty, fill, h } from "./dom.js";
import { clock, dayName, dayOf } from "./format.js";
import { writingBox } from "./live_box.js";
import { messageNode, snippet } from "./live_message.js";
import { join } from "./live_session.js";
import { knownNames } from "./markup.js";
import { pullsPanel } from "./pulls.js";

const NEAR = 80; // pixels from the end that still count as its end
const PATIENCE = 4000; // milliseconds without a connection before the page says so
const FILTER_FROM = 12; // channels

let lastChannel = ""; // shown again when the page is opened without one

export async function render(root, params) {
  let view = null;
  const [session, leave] = await join((kind, detail) => view?.on(kind, detail));
  try {
    view = new LivePage(root, session, params.parts[0]);
    await view.open();
  } catch (error) {
    leave();
    throw error;
  }
  return () => { leave(); view.close(); };
}

class LivePage {
  constructor(root, session, wanted) {
    this.root = root;
    this.session = session;
    const first = session.channels.get(lastChannel) || session.channels.values().next().value;
    this.channel = session.channels.get(wanted) || (wanted ? null : first) || null;
    this.pulls = null; // why the last speaker was chosen
    this.wanted = wanted;
    this.names = knownNames(session.person ? [session.person.name] : []);
    this.box = null;
    this.nodes = new Map(); // message → its node
    this.atEnd = true;
    this.top = 0; // where it was scrolled to
    this.missed = 0;
    this.build();
  }

  get person() {
    return this.session.person?.name ?? null;
  }

  build() {
    this.list = h("nav", { class: "channels", "aria-label": "Channels" });
    this.head = h("header", { class: "live-head" });
    this.banner = h("p", { class: "banner", role: "status", hidden: true });
    this.log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": "Messages", tabindex: "0" }, this.inner = h("div", { class: "log-inner" }));
    this.fresh = h("button", { class: "fresh primary", hidden: true, onclick: () => this.toEnd(true) });
    this.typing = h("div", { class: "typing" });
    this.spoken = h("div", { class: "hidden", role: "status", "aria-live": "polite" });
    this.foot = h("div", { class: "live-foot" });
    this.log.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.log.addEventListener("keydown", (event) => this.onKey(event));
    this.log.addEventListener("click", (event) => this.onClick(event));
    const chat = h("section", { class: "chat", "aria-label": this.channel ? `#${this.channel.name}` : "Chat" },
      this.head, this.banner, h("div", { class: "log-frame" }, this.log, this.fresh), this.typing, this.foot, this.spoken);
    fill(this.root, this.list, chat);
    this.root.classList.add("live-page");
    this.resized = new ResizeObserver(() => this.stick()); // a picture loads, the box grows, a phone is turned
    this.resized.observe(this.log);
    this.resized.observe(this.inner);
    this.ticking = setInterval(() => this.showTyping(), 1000);
  }

  async open() {
    this.showList();
    if (!this.channel) return this.showNothing();
    lastChannel = this.channel.id;
    this.showHead();
    this.showFoot();
    await this.session.open(this.channel.id);
    this.session.markSeen(this.channel.id);
    this.showList();
    this.showAll();
    this.showTyping();
    this.connection(this.session.up);
    requestAnimationFrame(() => { this.toEnd(); if (this.box && matchMedia("(hover: hover)").matches) this.box.focus(); });
  }

  close() {
    clearInterval(this.ticking);
    clearTimeout(this.down);
    this.resized.disconnect();
  }

  // --- what the session says ---

  on(kind, detail) {
    if (kind === "message") this.onMessage(detail);
    else if (kind === "gone" && detail.channel === this.channel?.id) this.showAll();
    else if (kind === "reread" && detail === this.channel?.id) { this.showAll(); this.stick(); }
    else if (kind === "situation") { this.showHead(); this.showTyping(); this.showList(); }
    else if (kind === "channels") this.onChannels();
    else if (kind === "connection") this.connection(detail);
  }

  onChannels() {
    if (!this.channel && this.session.channels.size) {
      this.channel = this.session.channels.get(this.wanted) || (this.wanted ? null : this.session.channels.values().next().value);
      if (this.channel) return void this.open();
    }
    this.channel = this.session.channels.get(this.channel?.id) || this.channel;
    this.showList();
    this.showHead();
  }

  onMessage({ message, fresh }) {
    if (message.channel !== this.channel?.id) {
      if (fresh) this.showList();
      return;
    }
    this.session.markSeen(this.channel.id);
    const mine = this.person !== null && message.author.name === this.person;
    this.show1(message);
    if (!fresh) return this.stick();
    if (mine || this.atEnd) this.toEnd();
    else this.offerFresh(this.missed + 1);
    if (!mine && !message.growing) this.speak(message);
  }

  speak(message) {
    const author = message.author.agent ? agentName(message.author.agent) : message.author.name;
    this.spoken.textContent = `${author}: ${snippet(message)}`;
  }

  // --- the list of channels ---

  showList() {
    const { channels, situation } = this.session;
    const typed = this.filter?.value.trim().toLowerCase() ?? "";
    const focused = document.activeElement?.closest?.(".channels a")?.dataset.id;
    const scrolled = this.links?.scrollTop ?? 0;
    const guilds = new Set([...channels.values()].map((channel) => channel.guild));
    const items = [];
    let guild = null;
    for (const channel of channels.values()) {
      if (typed && !channel.name.toLowerCase().includes(typed)) continue;
      if (guilds.size > 1 && channel.guild !== guild) items.push(h("h2", null, channel.guild));
      guild = channel.guild;
      items.push(this.channelLink(channel, situation));
    }
    this.links ??= h("div", { class: "channel-links" });
    fill(this.links, items.length ? items : h("p", { class: "muted" }, typed ? "No channel has that name." : "No channel."));
    if (!this.list.contains(this.links)) {
      this.filter = h("input", { type: "search", placeholder: "Find a channel", "aria-label": "Find a channel", oninput: () => this.showList() });
      fill(this.list, channels.size >= FILTER_FROM && this.filter, this.links);
    }
    this.links.scrollTop = scrolled;
    if (focused) this.links.querySelector(`a[data-id="${CSS.escape(focused)}"]`)?.focus();
    else if (!this.placed) {
      this.placed = true;
      requestAnimationFrame(() => this.links.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }));
    }
    if (this.toggle) this.toggle.classList.toggle("unread", [...channels.values()].some((one) => one.id !== this.channel?.id && this.session.unread(one)));
  }

  channelLink(channel, situation) {
    const here = channel.id === this.channel?.id, unread = !here && this.session.unread(channel);
    const busy = situation.conversations[channel.id] || situation.thinking.some((one) => one.channel === channel.id);
    return h("a", {
      href: `#/live/${channel.id}`, dataset: { id: channel.id }, "aria-current": here && "page", title: channel.name,
      class: [unread && "unread", channel.parent && "thread"].filter(Boolean).join(" "),
      onclick: () => this.root.classList.remove("choosing"),
    }, h("span", { class: "sign", "aria-hidden": "true" }, channel.parent ? "⌞" : "#"), h("span", { class: "name", dir: "auto" }, channel.name),
    busy && h("span", { class: "busy", title: "A conversation is running" }, h("span", { class: "hidden" }, "a conversation is running")),
    unread && h("span", { class: "dot" }, h("span", { class: "hidden" }, "new messages")));
  }

  // --- the header ---

  showHead() {
    if (!this.channel) return;
    const { situation } = this.session, channel = this.channel;
    const running = situation.conversations[channel.id] || null;
    const stopped = situation.stops[channel.id] || (channel.parent && situation.stops[channel.parent]) || null;
    if (!this.title) {
      this.toggle = h("button", { class: "quiet icon toggle", "aria-label": "Channels", "aria-expanded": "false", onclick: () => this.choose() }, "☰");
      this.title = h("h1", null);
      this.line = h("p", { class: "live-line" });
      this.actions = h("div", { class: "live-actions" });
      this.pulls = pullsPanel(channel.id);
      const more = h("button", { class: "quiet icon more-actions", "aria-label": "Actions", "aria-expanded": "false", onclick: () => more.setAttribute("aria-expanded", String(this.head.classList.toggle("acting"))) }, "⋯");
      fill(this.head, this.toggle, h("div", { class: "live-title" }, this.title, this.line), more, this.actions, this.pulls.node);
    }
    const speaker = running?.speaker ?? null;
    if (speaker !== this.speaker) {
      this.speaker = speaker;
      this.pulls.look();
    }
    const theme = running?.theme || channel.theme;
    fill(this.title, h("span", { class: "muted", "aria-hidden": "true" }, "#"), h("bdi", null, channel.name), theme !== channel.name && chip(theme));
    const room = situation.rooms?.[channel.id] || null;
    fill(this.line, stopped && chip(`stopped until ${clock(stopped)}`, "bad"), this.muted(situation), this.conversation(running, situation, room));
    const state = JSON.stringify([Boolean(running), stopped, Boolean(room)]);
    if (state !== this.actionsFor) {
      this.actionsFor = state;
      const steer = h("a", { class: "button", href: `#/room/${channel.id}` }, "Steer the room");
      fill(this.actions, room ? steer : channelActions({ ...channel, running: Boolean(running), stopped: Boolean(stopped) }));
    }
  }

  muted(situation) {
    return Object.entries(situation.mutes).map(([agent, until]) => chip(`${agentName(agent)} is muted until ${clock(until)}`, "warn"));
  }

  conversation(running, situation, room) {
    if (room && (!running || room.status !== "active")) return h("span", null, roomLink(this.channel.id), ` · ${room.status === "active" ? "running" : room.status} · turn ${room.turn} of ${room.turns}`, room.why && ` · ${room.why}`);
    if (!running) {
      const next = situation.times[0];
      const plan = h("a", { href: "#/schedule" }, "Schedule");
      return h("span", null, "No conversation is running", " · ", plan, next && [" · the next one begins at ", at(next), situation.times[1] && [", then ", at(situation.times[1])]]);
    }
    const order = [running.speaker, ...running.coming].filter(Boolean);
    const parts = [
      room ? h("span", null, roomLink(this.channel.id), ` · turn ${room.turn} of ${room.turns}`) : running.single ? "One turn, on request" : running.joins ? "The bots join a person’s talk" : `Round ${running.round} of at most ${this.session.mostRounds}`,
      !room && running.topic && h("span", { class: "topic", dir: "auto" }, `“${running.topic}”`),
      order.length > 0 && [agentInline(order[0]), running.speaker ? " has the turn" : " is next", order.length > 1 && [", then ", order.slice(1).flatMap((agent, index) => [index ? ", " : "", agentInline(agent)])]],
    ].filter(Boolean);
    return h("span", null, parts.flatMap((part, index) => (index ? [" · ", part] : [part])));
  }

  choose() {
    const open = this.root.classList.toggle("choosing");
    this.toggle.setAttribute("aria-expanded", String(open));
    if (open) this.links.querySelector("[aria-current], a")?.focus();
  }

  // --- messages ---

  find(id) {
    return this.session.threads.get(this.channel.id)?.list.find((message) => message.id === id);
  }

  show(id) {
    const node = this.nodes.get(id);
    if (!node) return;
    node.scrollIntoView({ block: "center" });
    this.pick(node);
    node.classList.add("flash");
    setTimeout(() => node.classList.remove("flash"), 1500);
  }

  reply(message) {
    this.box?.reply(message);
  }

  react(message, emoji, given) {
    act(`api/live/channels/${message.channel}/messages/${message.id}/reactions`, { emoji, given });
  }

  showAll() {
    const thread = this.session.threads.get(this.channel.id);
    this.nodes.clear();
    if (!thread || !thread.list.length) return fill(this.inner, this.nothingYet());
    const children = [this.beginning(thread)];
    let before = null;
    for (const message of thread.list) {
      this.learn(message);
      if (!before || dayOf(before.at) !== dayOf(message.at)) children.push(divider(message.at));
      children.push(this.node(message, before));
      before = message;
    }
    fill(this.inner, children);
  }

  // One message that is new or changed; the one behind it may now begin a group.
  show1(message) {
    this.learn(message);
    const list = this.session.threads.get(this.channel.id).list, index = list.indexOf(message);
    const known = this.nodes.get(message.id), before = list[index - 1] ?? null, behind = list[index + 1];
    if (!known && (behind || !before)) return this.showAll();
    const focused = known?.contains(document.activeElement);
    const node = this.node(message, before);
    if (known) {
      known.replaceWith(node);
      if (focused) node.focus({ preventScroll: true });
      if (this.picked === known) this.pick(node, false);
      return;
    }
    if (dayOf(before.at) !== dayOf(message.at)) this.inner.append(divider(message.at));
    this.inner.append(node);
  }

  node(message, before) {
    const node = messageNode(message, before, this);
    this.nodes.set(message.id, node);
    return node;
  }

  learn(message) {
    if (!message.author.agent && !this.names.has(message.author.name)) this.names.set(message.author.name, null);
  }

  beginning(thread) {
    if (thread.next) return h("p", { class: "begin" }, h("button", { class: "quiet", onclick: () => this.older() }, "Earlier messages"));
    return h("p", { class: "begin muted" }, this.person === null ? "Earlier messages are in Discord." : "This is the beginning of the channel.");
  }

  async older() {
    if (this.reading) return;
    this.reading = true;
    const height = this.log.scrollHeight, top = this.log.scrollTop;
    try {
      if (await this.session.older(this.channel.id)) {
        this.showAll();
        this.log.scrollTop = top + this.log.scrollHeight - height;
      }
    } catch {
      // the button stays, and the banner says that the program is away
    } finally {
      this.reading = false;
    }
  }

  nothingYet() {
    if (!this.box) return h("div", { class: "welcome" }, h("h2", null, `Nobody has written in #${this.channel.name} yet`), h("p", { class: "muted" }, "New messages appear here as they're posted."));
    const [name] = this.session.person.mentions, words = `@${name} hello`;
    return h("div", { class: "welcome" }, h("div", { class: "faces", "aria-hidden": "true" }, this.session.person.mentions.slice(0, 4).map((one) => this.face(one))),
      h("h2", null, "Say hello"),
      h("p", null, "Write to a bot below and it answers within seconds."),
      h("p", null, h("button", { class: "primary", onclick: () => this.box.write(words) }, `Write “${words}”`)));
  }

  face(name) {
    return avatar(this.names.get(name) ?? undefined, name);
  }

  showNothing() {
    const none = this.session.channels.size === 0;
    const text = none ? "No channels yet. The bots are still connecting, or they can't see any of the channels in .env. Signal chats aren't shown here, but you can find their turns under Turns." : "No bot sees this channel. It may have been deleted.";
    fill(this.inner, empty(text));
  }

  // --- the end of the log ---

  // Only who scrolls up leaves the end: a picture that loads makes the log longer too.
  onScroll() {
    const near = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR;
    if (near || this.log.scrollTop < this.top) this.atEnd = near;
    this.top = this.log.scrollTop;
    if (near) this.offerFresh(0);
    if (this.log.scrollTop < 200 && this.session.threads.get(this.channel?.id)?.next) this.older();
  }

  stick() {
    if (this.atEnd) this.toEnd();
  }

  toEnd(focus = false) {
    this.log.scrollTop = this.log.scrollHeight;
    this.atEnd = true;
    this.offerFresh(0);
    if (focus) (this.box ?? this.log).focus();
  }

  offerFresh(missed) {
    this.missed = missed;
    this.fresh.hidden = missed === 0;
    this.fresh.textContent = `↓ ${missed === 1 ? "1 new message" : `${missed} new messages`}`;
  }

  // --- keys: up and down choose a message, Tab then reaches what may be done with it ---

  onKey(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    const nodes = [...this.log.querySelectorAll(".message")];
    const now = nodes.indexOf(event.target.closest(".message") ?? this.picked);
    const next = nodes[now < 0 ? nodes.length - 1 : now + step];
    event.preventDefault();
    if (next) {
      this.pick(next);
      next.scrollIntoView({ block: "nearest" });
    }
  }

  onClick(event) {
    const node = event.target.closest(".message");
    if (node && !event.target.closest("a, button, .spoiler") && matchMedia("(hover: none)").matches) this.pick(node === this.picked ? null : node, false);
  }

  pick(node, focus = true) {
    this.picked?.classList.remove("picked");
    this.picked = node;
    node?.classList.add("picked");
    if (focus) node?.focus({ preventScroll: true });
  }

  // --- below the log ---

  showTyping() {
    const here = this.session.situation.thinking.filter((one) => one.channel === this.channel?.id);
    const now = Date.now() / 1000;
    const texts = here.slice(0, 4).map((one) => {
      const seconds = Math.max(0, Math.floor(now - one.since));
      return h("span", { class: "thinker" }, agentInline(one.agent), " is thinking", h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")), seconds > 0 && h("span", { class: "muted", "aria-hidden": "true" }, ` ${seconds} s`));
    });
    fill(this.typing, texts, here.length > 4 && h("span", { class: "muted" }, `and ${here.length - 4} more`));
  }

  showFoot() {
    if (!this.session.person) return fill(this.foot, h("p", { class: "read-only muted" }, this.session.readOnly));
    this.box = writingBox(this.channel, this.session.person, () => Boolean(this.session.situation.conversations[this.channel.id]));
    fill(this.foot, this.box.node);
  }

  connection(up) {
    clearTimeout(this.down);
    if (up) this.banner.hidden = true;
    else this.down = setTimeout(() => {
      this.banner.textContent = "The program isn't responding. This page continues as soon as it does.";
      this.banner.hidden = false;
    }, PATIENCE);
  }
}

const roomLink = (id) => h("a", { href: `#/room/${id}` }, "Room");
const agentInline = (agent) => coloured(h("b", { class: "agent-name" }, agentName(agent)), agent);
const divider = (unix) => h("div", { class: "day-line", role: "separator" }, h("span", null, dayName(dayOf(unix))));
