// One room: its standing, actions, and the posts in its thread, as they come if a bot of this
// process sees the thread, otherwise from the record.
import { get } from "./api.js";
import { agentName, at, avatar, chip, coloured, empty, figure, fill, h, when } from "./dom.js";
import { clock, dayAndClock, inSentence, money } from "./format.js";
import { join } from "./live_session.js";
import { formatted, knownNames } from "./markup.js";
import { saveAs } from "./posts.js";
import { pullsButton } from "./pulls.js";
import { roomActions } from "./room_actions.js";
import { member, status, STATUS } from "./rooms.js";
import { personLink, placeLink } from "./turn_words.js";

const LOOK = 4000; // milliseconds between two looks

export async function render(root, { parts: [id], signal }) {
  const path = `api/rooms/${encodeURIComponent(id || "")}`;
  const head = h("div", { class: "stack" }), log = h("section", { class: "card chat-card", "aria-label": "What was said", "aria-live": "off" });
  const pulls = pullsButton(id);
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
    fill(head, heading(room, path), facts(room, pulls.node));
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
  fill(root, head, log);
  const again = () => look().catch(() => {}); // the next look comes
  const timer = room.kept ? setInterval(again, LOOK) : 0;
  window.addEventListener("acted", again);
  return () => { clearInterval(timer); window.removeEventListener("acted", again); leave(); };
}

function heading(room, path) {
  return [
    h("h1", { dir: "auto" }, room.topic),
    h("div", { class: "row apart" }, h("div", { class: "row" }, status(room), room.kept && [h("a", { class: "button", href: `#/live/${room.id}` }, "Watch it live"), roomActions(room)]), saveAs(path)),
    !room.kept && h("p", { class: "muted" }, "This room can't be resumed, because Redis no longer has it. This is what the history has."),
  ];
}

function facts(room, pulls) {
  const opener = room.opened_by ? h("span", null, room.proposed ? "proposed by " : "by ", personLink(room.opened_by, room.opened_by_name)) : null;
  return h("section", { class: "card", "aria-label": "Facts" },
    h("div", { class: "row" }, placeLink(room.channel), h("span", { class: "muted" }, "opened ", inSentence(dayAndClock(room.opened_at))), opener,
      room.phase && chip(`${room.format}: ${room.phase}`),
      nowText(room) && chip(nowText(room), "good"), room.status === "active" && room.next_turn_at * 1000 > Date.now() && h("span", null, "next turn ", inSentence(dayAndClock(room.next_turn_at))), h("a", { href: `#/turns?channel=${room.id}` }, "Its turns")),
    h("div", { class: "row" }, room.members.map(member), room.left.length > 0 && h("span", { class: "muted" }, "left: ", room.left.map((one) => one.shown).join(", "))),
    h("div", { class: "figures" }, figure(room.turn, room.turns ? `of ${room.turns} turns` : "turns"), room.skips > 0 && figure(room.skips, room.skips === 1 ? "silent turn" : "silent turns"), figure(money(room.cost_usd), "cost")),
    h("div", { class: "row" }, h("span", null, h("b", null, "Who speaks next: "), room.policy_text), room.policy === "pull" && pulls),
    room.details && h("p", { class: "rules", dir: "auto" }, room.details),
    room.rules && h("p", { class: "rules" }, room.rules),
    h("p", { class: "muted" }, room.why && [`${capital(STATUS[room.status]?.[0] || room.status)}: ${room.why}. `], "Last change ", when(room.changed_at), "."),
    outcome(room));
}

// Who has the word, and who is next.
function nowText({ members, slot_until, waits_until, speaking, next_speaker }) {
  if (slot_until) return `open to its audience until ${clock(slot_until)}`;
  if (waits_until) return `waits until ${clock(waits_until)} for a person to name a member`;
  const shown = (key) => members.find((one) => one.key === key)?.shown;
  if (shown(speaking)) return `${shown(speaking)} speaks${shown(next_speaker) ? `, then ${shown(next_speaker)}` : ""}`;
  return shown(next_speaker) ? `next: ${shown(next_speaker)}` : "";
}

// Votes so far, and what the room came to when it closed.
function outcome({ votes, conclusion, members, left, shared }) {
  const shown = Object.fromEntries([...members, ...left].map((one) => [one.key, one.shown]));
  const score = Object.entries(votes || {}).sort(([, a], [, b]) => b - a).map(([key, count]) => `${shown[key] || agentName(key)} ${count}`);
  const link = shared && new URL(shared, document.baseURI).href; // without CONSOLE_URL, it begins where the console is
  const line = (name, text) => text && h("p", null, h("b", null, `${name}: `), text);
  return [
    line("Votes", score.join(", ")),
    conclusion && line(`Verdict by ${conclusion.judge}`, conclusion.verdict),
    conclusion && line("Agreed", conclusion.agreed.join(" ")),
    conclusion && line("Still open", conclusion.unsettled.join(" ")),
    shared && h("p", null, h("b", null, "Anyone can read it at "), h("a", { href: link, target: "_blank", rel: "noopener" }, link)),
  ];
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const fromLive = (message) => ({ id: message.id, agent: message.author.agent, name: message.author.name, text: message.text, at: message.at });

function said(messages) {
  const spoken = messages.filter((message) => message.text);
  if (!spoken.length) return empty("Nothing is recorded yet. New messages appear here within seconds.");
  const names = knownNames(spoken.filter((message) => !message.agent).map((message) => message.name));
  return spoken.map((message) => coloured(h("article", { class: "message" }, avatar(message.agent, message.name),
    h("div", { class: "message-head" }, h("b", { dir: "auto" }, message.agent ? agentName(message.agent) : message.name), at(message.at), !message.agent && chip("audience")),
    h("div", { class: "message-text" }, formatted(message.text, names))), message.agent));
}
