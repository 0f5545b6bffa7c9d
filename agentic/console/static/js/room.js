// One room: its standing, what can be done with it, and what was said in its thread, as it comes where a bot of this
// process sees the thread, otherwise from the record.
import { get } from "./api.js";
import { agentName, at, avatar, channelLink, chip, coloured, empty, figure, fill, h, when } from "./dom.js";
import { dayAndClock, money } from "./format.js";
import { join } from "./live_session.js";
import { formatted, knownNames } from "./markup.js";
import { pullsPanel } from "./pulls.js";
import { roomActions } from "./room_actions.js";
import { member, status, turns } from "./rooms.js";
import { personLink } from "./turn_words.js";

const LOOK = 4000; // milliseconds between two looks
const FORMATS = [["html", "Web page"], ["md", "Markdown"], ["json", "JSON"]];

export async function render(root, { parts: [id], signal }) {
  const path = `api/rooms/${encodeURIComponent(id || "")}`;
  const head = h("div", { class: "stack" }), log = h("section", { class: "card chat-card", "aria-label": "What was said", "aria-live": "off" });
  const pulls = pullsPanel(id);
  let room = await get(path, {}, { signal }), shown = "";
  const [session, leave] = await join((kind, detail) => {
    if (kind === "reread" || detail?.message?.channel === id || detail?.channel === id) showLog();
  });
  const live = () => session.threads.get(id)?.list || [];
  const showLog = () => fill(log, said(live().length ? live().map(fromLive) : room.messages));
  const showHead = () => {
    const state = JSON.stringify(room, (key, value) => (key === "messages" ? undefined : value));
    if (state === shown) return; // a dialog's button keeps the focus
    shown = state;
    document.title = `${room.topic} · agentic-discord`;
    fill(head, heading(room, path), facts(room));
  };
  // A new thread is seen by the bots a moment after it was made; until then, the record has what is known.
  const openThread = async () => { if (session.channels.has(id)) await session.open(id).catch(() => {}); };
  await openThread();
  const look = async () => {
    room = await get(path, {}, { signal });
    showHead();
    await openThread();
    const said = live().length || room.messages.length;
    if (!live().length || said !== log.childElementCount) showLog();
    pulls.look();
  };
  showHead();
  showLog();
  fill(root, head, room.policy === "pull" && pulls.node, log);
  const again = () => look().catch(() => {}); // the next look comes
  const timer = setInterval(again, LOOK);
  window.addEventListener("acted", again);
  return () => { clearInterval(timer); window.removeEventListener("acted", again); leave(); };
}

function heading(room, path) {
  const save = FORMATS.map(([format, name]) => h("a", { class: "button", href: `${path}/export?format=${format}`, download: "" }, name));
  return [
    h("div", { class: "page-head" }, h("h1", { dir: "auto" }, room.topic), status(room), h("div", { class: "row" }, roomActions(room))),
    h("div", { class: "row muted", role: "group", "aria-label": "Save it as" }, h("a", { class: "button", href: `#/live/${room.id}` }, "Watch it live"), h("span", null, "Save as"), save),
  ];
}

function facts(room) {
  const opener = room.opened_by ? h("span", null, "by ", personLink(room.opened_by, room.opened_by_name)) : null;
  return h("section", { class: "card", "aria-label": "Facts" },
    h("div", { class: "row" }, channelLink(room.channel.id), h("span", { class: "muted" }, "opened ", dayAndClock(room.opened_at)), opener, chip(room.policy_text),
      room.slot_until && chip("open to its audience", "good"), h("a", { href: `#/turns?channel=${room.id}` }, "its turns")),
    h("div", { class: "row" }, room.members.map(member), room.left.length > 0 && h("span", { class: "muted" }, "left: ", room.left.map((one) => one.shown).join(", "))),
    h("div", { class: "figures" }, figure(room.turn, `of ${room.turns} turns`), figure(room.skips, "silent turns"), figure(money(room.cost_usd), "cost"), figure(when(room.changed_at), "last change")),
    room.rules && h("p", { class: "rules" }, room.rules),
    room.why && h("p", { class: "muted" }, `${turns(room)}: ${room.why}`));
}

const fromLive = (message) => ({ id: message.id, agent: message.author.agent, name: message.author.name, text: message.text, at: message.at });

function said(messages) {
  const spoken = messages.filter((message) => message.text);
  if (!spoken.length) return empty("Nothing is recorded yet. New messages appear here within seconds.");
  const names = knownNames(spoken.filter((message) => !message.agent).map((message) => message.name));
  return spoken.map((message) => coloured(h("article", { class: "message" }, avatar(message.agent, message.name),
    h("div", { class: "message-head" }, h("b", { dir: "auto" }, message.agent ? agentName(message.agent) : message.name), at(message.at), !message.agent && chip("audience")),
    h("div", { class: "message-text" }, formatted(message.text, names))), message.agent));
}
