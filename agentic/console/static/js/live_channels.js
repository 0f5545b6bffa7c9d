// The live page's list of channels, with marks for new messages and running conversations.
import { fill, h } from "./dom.js";

const FILTER_FROM = 12; // channels

export class ChannelList {
  constructor(session, chosen) {
    this.session = session;
    this.chosen = chosen; // called when a channel was chosen
    this.links = h("div", { class: "channel-links" });
    this.filter = h("input", { type: "search", placeholder: "Find a channel", "aria-label": "Find a channel", oninput: () => this.show() });
    this.node = h("nav", { class: "channels", "aria-label": "Channels" }, this.filter, this.links);
  }

  // `here` is the id of the channel that the page shows.
  show(here = this.here) {
    this.here = here;
    const { channels, situation } = this.session;
    const typed = this.filter.value.trim().toLowerCase();
    const focused = document.activeElement?.closest?.(".channels a")?.dataset.id;
    const scrolled = this.links.scrollTop;
    const guilds = new Set([...channels.values()].map((channel) => channel.guild));
    const items = [];
    let guild = null;
    for (const channel of channels.values()) {
      if (typed && !channel.name.toLowerCase().includes(typed)) continue;
      if (guilds.size > 1 && channel.guild !== guild) items.push(h("h2", null, channel.guild));
      guild = channel.guild;
      items.push(this.#link(channel, situation));
    }
    this.filter.hidden = channels.size < FILTER_FROM;
    fill(this.links, items.length ? items : h("p", { class: "muted" }, typed ? "No channel has that name." : "No channel."));
    this.links.scrollTop = scrolled;
    if (focused) this.links.querySelector(`a[data-id="${CSS.escape(focused)}"]`)?.focus();
    else if (!this.placed) {
      this.placed = true;
      requestAnimationFrame(() => this.links.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" }));
    }
  }

  // Whether another channel has something new.
  get unread() {
    return [...this.session.channels.values()].some((channel) => this.#isUnread(channel));
  }

  focus() {
    this.links.querySelector("[aria-current], a")?.focus();
  }

  #isUnread(channel) {
    return channel.id !== this.here && this.session.unread(channel);
  }

  #link(channel, situation) {
    const unread = this.#isUnread(channel);
    const busy = situation.conversations[channel.id] || situation.thinking.some((one) => one.channel === channel.id);
    return h("a", {
      href: `#/live/${channel.id}`, dataset: { id: channel.id }, "aria-current": channel.id === this.here && "page", title: channel.name,
      class: [unread && "unread", channel.parent && "thread"].filter(Boolean).join(" "), onclick: this.chosen,
    }, h("span", { class: "sign", "aria-hidden": "true" }, channel.parent ? "⌞" : "#"), h("span", { class: "name", dir: "auto" }, channel.name),
    busy && h("span", { class: "busy", title: "A conversation is running" }, h("span", { class: "hidden" }, "a conversation is running")),
    unread && h("span", { class: "dot" }, h("span", { class: "hidden" }, "new messages")));
  }
}
