// The live page: the channels as a chat, their conversations, and in local mode a box to write in.
import { resumeButton } from "./actions.js";
import { get } from "./api.js";
import { agentInline, agentName, avatar, fill, h } from "./dom.js";
import { soon } from "./format.js";
import { writingBox } from "./live_box.js";
import { ChannelList } from "./live_channels.js";
import { LiveHead } from "./live_head.js";
import { MessageLog } from "./live_log.js";
import { snippet } from "./live_message.js";
import { MembersPanel } from "./live_members.js";
import { FIRST, join } from "./live_session.js";
import { me } from "./me.js";
import { resumeAllButton } from "./pause.js";
import { commandsOf } from "./play.js";

const QUICK = 150; // milliseconds in which nothing but the whole page is shown
const PATIENCE = 4000; // milliseconds without a connection before the page says so
const NONE = "No channels yet. The bots are still connecting, or they can't see any of the channels in .env. Signal chats aren't shown here, but you can find their turns under Turns.";
const UNKNOWN = "No bot sees this channel. It may have been deleted.";

const places = new Map(); // channel → the message at the top when the page was left
let lastChannel = ""; // shown again when the page is opened without one

export async function render(root, params) {
  let view = null;
  const [session, leave] = await join((kind, detail) => view?.on(kind, detail));
  try {
    view = new LivePage(root, session, params.parts[0], params.isBack, params.query.get("message"));
    await view.open();
  } catch (error) {
    leave();
    throw error;
  }
  return () => { leave(); view.close(); };
}

class LivePage {
  constructor(root, session, wanted, isBack, message) {
    this.root = root;
    this.session = session;
    this.wanted = wanted;
    this.isBack = isBack;
    this.message = message; // to be shown
    this.list = new ChannelList(session, () => root.classList.remove("choosing"));
    this.banner = h("p", { class: "banner", role: "status", hidden: true });
    this.typing = h("div", { class: "typing" });
    this.spoken = h("div", { class: "hidden", role: "status", "aria-live": "polite" });
    this.chat = h("section", { class: "chat", "aria-label": "Chat" });
    fill(root, this.list.node, this.chat);
    this.resized = new ResizeObserver(([{ target }]) => document.documentElement.style.setProperty("--foot", `${target.offsetHeight}px`)); // toasts are above it
    this.repaint = () => this.showSituation();
    window.addEventListener("paused", this.repaint);
    this.ticking = setInterval(() => { this.showTyping(); this.members?.show(); }, 1000);
  }

  async open() {
    const pause = new Promise((resolve) => setTimeout(resolve, QUICK));
    const { channels } = this.session;
    this.isFirst = !this.wanted && !lastChannel && document.querySelector(`link[href="${FIRST}"]`) !== null;
    this.channel = channels.get(this.wanted) || (this.wanted ? null : channels.get(lastChannel) || channels.values().next().value) || null;
    this.log = new MessageLog(this.session, this.channel, () => this.welcome());
    if (!this.channel) {
      this.log.showText(channels.size ? UNKNOWN : NONE);
      fill(this.chat, this.banner, this.log.node);
      this.list.show();
      return /^\d+$/.test(this.wanted) && this.offerRoom(this.wanted);
    }
    lastChannel = this.channel.id;
    this.members = new MembersPanel(this.session, this.channel);
    this.head = new LiveHead(this.session, this.channel, () => this.choose(), this.members.button);
    this.root.append(this.members.node);
    this.chat.setAttribute("aria-label", `#${this.channel.name}`);
    this.silence = h("p", { class: "silence row", role: "status" });
    fill(this.chat, this.head.node, this.banner, this.log.node, this.typing, this.foot(), this.spoken);
    this.showSituation();
    this.connection(this.session.up);
    this.log.showText("Loading…");
    await Promise.race([this.openLog(), pause]); // a slow line first shows all but the messages
  }

  async openLog() {
    try {
      await this.session.open(this.channel.id, this.isFirst);
    } catch (error) {
      return this.log.showText(error.message);
    }
    this.session.markSeen(this.channel.id);
    this.list.show();
    this.log.showAll();
    const place = this.isBack ? places.get(this.channel.id) : null;
    requestAnimationFrame(() => {
      this.log.goTo(place);
      if (this.message) this.log.show(this.message);
      else if (!place && this.box && matchMedia("(hover: hover)").matches) this.box.focus();
    });
  }

  // A closed room is no longer among the channels, but it has a page.
  async offerRoom(id) {
    const room = await get(`api/rooms/${encodeURIComponent(id)}`).catch(() => null);
    if (room?.status === "active" && !this.channel) this.log.showText("The room is opening…"); // the bots see its thread in a moment
    else if (room && !this.channel) this.log.showText(["This room isn't shown live anymore. ", h("a", { href: `#/room/${room.id}` }, `Read “${room.topic}”`)]);
  }

  close() {
    clearInterval(this.ticking);
    clearTimeout(this.down);
    window.removeEventListener("paused", this.repaint);
    this.resized.disconnect();
    document.documentElement.style.removeProperty("--foot");
    if (this.channel) places.set(this.channel.id, this.log.place);
    this.log?.close();
    this.members?.close();
  }

  // --- what the session says ---

  on(kind, detail) {
    const here = this.channel?.id;
    if (kind === "message") this.onMessage(detail);
    else if (kind === "gone" && detail.channel === here) this.log.showAll();
    else if (kind === "reread" && detail === here) { this.log.showAll(); this.log.stick(); }
    else if (kind === "situation") this.showSituation();
    else if (kind === "channels") this.onChannels();
    else if (kind === "connection") this.connection(detail);
  }

  onChannels() {
    if (!this.channel && this.session.channels.has(this.wanted ?? this.session.channels.keys().next().value)) {
      this.log.close();
      return void this.open();
    }
    this.channel = this.session.channels.get(this.channel?.id) || this.channel;
    this.showSituation();
    if (this.channel) this.log.showThreads();
  }

  onMessage({ message, fresh }) {
    if (message.channel !== this.channel?.id) {
      if (fresh) this.showSituation();
      return;
    }
    this.session.markSeen(this.channel.id);
    this.log.add(message, fresh);
    if (fresh && !message.growing && message.author.name !== this.log.person) this.speak(message);
  }

  speak(message) {
    const author = message.author.agent ? agentName(message.author.agent) : message.author.name;
    this.spoken.textContent = `${author}: ${snippet(message)}`;
  }

  showSituation() {
    this.list.show(this.channel?.id);
    if (!this.channel) return;
    this.head.show(this.channel);
    this.head.toggle.classList.toggle("unread", this.list.unread);
    this.showSilence();
    this.showTyping();
    this.members.show();
  }

  choose() {
    const open = this.root.classList.toggle("choosing");
    this.head.toggle.setAttribute("aria-expanded", String(open));
    if (open) this.list.focus();
  }

  // --- below the messages ---

  showTyping() {
    const here = this.session.situation.thinking.filter((one) => one.channel === this.channel?.id);
    const now = Date.now() / 1000;
    const texts = here.slice(0, 4).map((one) => {
      const seconds = Math.max(0, Math.floor(now - one.since));
      return h("span", { class: "thinker" }, agentInline(one.agent), " is thinking", h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")), seconds > 0 && h("span", { class: "muted", "aria-hidden": "true" }, ` ${seconds} s`), one.ahead > 0 && h("span", { class: "muted" }, ` · ${one.ahead} ahead`));
    });
    fill(this.typing, texts, here.length > 4 && h("span", { class: "muted" }, `and ${here.length - 4} more`));
  }

  // Above the box, why nobody would answer.
  showSilence() {
    const stop = this.session.stopOf(this.channel);
    const words = stop ? `Stopped until ${soon(stop.until)}.` : me.paused ? "All bots are paused." : "";
    if (words === this.silence.firstChild?.textContent) return; // a button keeps the focus
    fill(this.silence, words && [h("span", null, words), stop ? resumeButton(stop.channel) : resumeAllButton("Resume all")]);
  }

  foot() {
    const { person, readOnly } = this.session, foot = h("div", { class: "live-foot" });
    this.resized.observe(foot);
    if (!person) return fill(foot, this.silence, h("p", { class: "read-only muted" }, readOnly));
    this.box = this.log.box = writingBox(this.channel, person, commandsOf(this.session, this.channel), () => Boolean(this.silence.textContent || this.session.situation.conversations[this.channel.id]));
    return fill(foot, this.silence, this.box.node);
  }

  welcome() {
    if (!this.box) return h("div", { class: "welcome" }, h("h2", null, `Nobody has written in #${this.channel.name} yet`), h("p", { class: "muted" }, "New messages appear here as they're posted."));
    const { mentions } = this.session.person, words = `@${mentions[0]} hello`;
    return h("div", { class: "welcome" }, h("div", { class: "faces", "aria-hidden": "true" }, mentions.slice(0, 4).map((one) => avatar(this.log.names.get(one) ?? undefined, one))),
      h("h2", null, "Say hello"),
      h("p", null, "Write to a bot below and it answers within seconds."),
      h("p", null, h("button", { class: "primary", onclick: () => this.box.write(words) }, `Write “${words}”`)));
  }

  connection(up) {
    clearTimeout(this.down);
    if (up) {
      this.banner.hidden = true;
      this.box?.forgive();
    } else this.down = setTimeout(() => {
      this.banner.textContent = "The program isn't responding. This page continues as soon as it does.";
      this.banner.hidden = false;
    }, PATIENCE);
  }
}
