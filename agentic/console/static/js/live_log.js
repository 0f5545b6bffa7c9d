// The live page's messages: it stays at the end unless one scrolls up, and the arrow keys choose a message.
import { act } from "./api.js";
import { empty, fill, h } from "./dom.js";
import { dayName, dayOf } from "./format.js";
import { messageNode } from "./live_message.js";
import { knownNames } from "./markup.js";

const NEAR = 80; // pixels from the end that still count as its end

// It is also the `page` that messageNode() asks.
export class MessageLog {
  // `box` is the box for a person's messages, or null; `welcome()` is shown in an empty log.
  constructor(session, channel, welcome) {
    this.session = session;
    this.channel = channel;
    this.welcome = welcome;
    this.box = null;
    this.names = knownNames(session.person ? [session.person.name] : []);
    this.nodes = new Map(); // message → its node
    this.atEnd = true;
    this.top = 0; // its scroll position
    this.missed = 0;
    this.log = h("div", { class: "log", role: "log", "aria-live": "off", "aria-label": "Messages", tabindex: "0" }, this.inner = h("div", { class: "log-inner" }));
    this.fresh = h("button", { class: "fresh primary", hidden: true, onclick: () => this.toEnd(true) });
    this.node = h("div", { class: "log-frame" }, this.log, this.fresh);
    this.log.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.log.addEventListener("keydown", (event) => this.#onKey(event));
    this.log.addEventListener("click", (event) => this.#onClick(event));
    this.resized = new ResizeObserver(() => this.stick()); // a picture loads, the box grows, a phone is turned
    this.resized.observe(this.log);
    this.resized.observe(this.inner);
  }

  close() {
    this.resized.disconnect();
  }

  get person() {
    return this.session.person?.name ?? null;
  }

  // --- messages ---

  find(id) {
    return this.session.threads.get(this.channel.id)?.list.find((message) => message.id === id);
  }

  show(id) {
    const node = this.nodes.get(id);
    if (!node) return;
    this.atEnd = false;
    node.scrollIntoView({ block: "center" });
    this.top = this.log.scrollTop;
    this.#pick(node);
    node.classList.add("flash");
    setTimeout(() => node.classList.remove("flash"), 1500);
  }

  reply(message) {
    this.box?.reply(message);
  }

  react(message, emoji, given) {
    act(`api/live/channels/${message.channel}/messages/${message.id}/reactions`, { emoji, given });
  }

  vote(message, answer, given) {
    act(`api/live/channels/${message.channel}/messages/${message.id}/votes`, { answer, given });
  }

  showAll() {
    const thread = this.session.threads.get(this.channel.id);
    this.nodes.clear();
    if (!thread || !thread.list.length) return fill(this.inner, this.welcome());
    const children = [this.#beginning(thread)];
    let before = null;
    for (const message of thread.list) {
      this.#learn(message);
      if (!before || dayOf(before.at) !== dayOf(message.at)) children.push(divider(message.at));
      children.push(this.#messageNode(message, before));
      before = message;
    }
    fill(this.inner, children);
  }

  showText(text) {
    fill(this.inner, empty(text));
  }

  // One message that is new or changed. `fresh`: nobody has seen it yet.
  add(message, fresh) {
    this.#show1(message);
    if (!fresh) this.stick();
    else if (this.atEnd || (this.person !== null && message.author.name === this.person)) this.toEnd();
    else this.#offerFresh(this.missed + 1);
  }

  // Shows a message again; returns its new node.
  repaint(message) {
    const now = this.find(message.id) || message;
    this.#show1(now);
    return this.nodes.get(now.id);
  }

  // Repaints the messages from which the channel's threads were started.
  showThreads() {
    for (const { id, parent } of this.session.channels.values()) {
      const message = parent === this.channel.id && this.find(id);
      if (message && !this.nodes.get(id)?.querySelector(".thread-link")) this.#show1(message);
    }
  }

  // The message behind a new one may now begin a group.
  #show1(message) {
    this.#learn(message);
    const list = this.session.threads.get(this.channel.id).list, index = list.indexOf(message);
    const known = this.nodes.get(message.id), before = list[index - 1] ?? null, behind = list[index + 1];
    if (!known && (behind || !before)) return this.showAll();
    const focused = known?.contains(document.activeElement);
    const node = this.#messageNode(message, before);
    if (known) {
      known.replaceWith(node);
      if (focused) node.focus({ preventScroll: true });
      if (this.picked === known) this.#pick(node, false);
      return;
    }
    if (dayOf(before.at) !== dayOf(message.at)) this.inner.append(divider(message.at));
    this.inner.append(node);
  }

  #messageNode(message, before) {
    const node = messageNode(message, before, this);
    this.nodes.set(message.id, node);
    return node;
  }

  #learn(message) {
    if (!message.author.agent && !this.names.has(message.author.name)) this.names.set(message.author.name, null);
  }

  #beginning(thread) {
    if (thread.next) return h("p", { class: "begin" }, h("button", { class: "quiet", onclick: () => this.#older() }, "Earlier messages"));
    return h("p", { class: "begin muted" }, this.person === null ? "Earlier messages are in Discord." : "This is the beginning of the channel.");
  }

  async #older() {
    if (this.reading) return;
    this.reading = true;
    const height = this.log.scrollHeight, top = this.log.scrollTop;
    try {
      if (await this.session.older(this.channel.id)) {
        this.showAll();
        this.log.scrollTop = top + this.log.scrollHeight - height;
      }
    } catch {
      // the button stays, and the banner says that the program isn't responding
    } finally {
      this.reading = false;
    }
  }

  // --- the place in the log ---

  // The message at the top, or null at the end.
  get place() {
    if (this.atEnd) return null;
    const { top } = this.log.getBoundingClientRect();
    return [...this.nodes].find(([, node]) => node.getBoundingClientRect().bottom > top)?.[0] ?? null;
  }

  goTo(place) {
    const node = this.nodes.get(place);
    if (!node) return this.toEnd();
    this.atEnd = false;
    node.scrollIntoView({ block: "start" });
    this.top = this.log.scrollTop;
  }

  // Only who scrolls up leaves the end: a picture that loads makes the log longer too.
  #onScroll() {
    const near = this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < NEAR;
    if (near || this.log.scrollTop < this.top) this.atEnd = near;
    this.top = this.log.scrollTop;
    if (near) this.#offerFresh(0);
    if (this.log.scrollTop < 200 && this.session.threads.get(this.channel?.id)?.next) this.#older();
  }

  stick() {
    if (this.atEnd) this.toEnd();
  }

  toEnd(focus = false) {
    this.log.scrollTop = this.log.scrollHeight;
    this.atEnd = true;
    this.#offerFresh(0);
    if (focus) (this.box ?? this.log).focus();
  }

  #offerFresh(missed) {
    this.missed = missed;
    this.fresh.hidden = missed === 0;
    this.fresh.textContent = `↓ ${missed === 1 ? "1 new message" : `${missed} new messages`}`;
  }

  // --- keys: up and down choose a message, Tab then reaches what may be done with it ---

  #onKey(event) {
    const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    const nodes = [...this.log.querySelectorAll(".message")];
    const now = nodes.indexOf(event.target.closest(".message") ?? this.picked);
    const next = nodes[now < 0 ? nodes.length - 1 : now + step];
    event.preventDefault();
    if (next) {
      this.#pick(next);
      next.scrollIntoView({ block: "nearest" });
    }
  }

  #onClick(event) {
    const node = event.target.closest(".message");
    if (node && !event.target.closest("a, button, .spoiler") && matchMedia("(hover: none)").matches) this.#pick(node === this.picked ? null : node, false);
  }

  #pick(node, focus = true) {
    this.picked?.classList.remove("picked");
    this.picked = node;
    node?.classList.add("picked");
    if (focus) node?.focus({ preventScroll: true });
  }
}

const divider = (unix) => h("div", { class: "day-line", role: "separator" }, h("span", null, dayName(dayOf(unix))));
