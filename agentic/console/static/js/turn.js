// One turn: why it said what it said. What called it, what it saw, what the model wrote, what that took and cost.
import { ApiError, get } from "./api.js";
import { agentChip, agentName, at, avatar, card, chip, figure, fill, h, numberTable } from "./dom.js";
import { count, dateTime, dayAndClock, money, percent, seconds, several, tokens } from "./format.js";
import { join } from "./live_session.js";
import { me } from "./me.js";
import { postNode } from "./posts.js";
import { promptView } from "./prompt_view.js";
import { replayPanel } from "./replay.js";
import { alsoDid, calledBy, conversationAddress, outcomeChip, placeLink, turnAddress, turnsAddress } from "./turn_words.js";

const ON_ITS_WAY = 60; // seconds after its end in which a turn's words may still reach the history

export async function render(root, { parts: [agent, id], query, signal, reload }) {
  const filters = Object.fromEntries(query);
  const find = () => get(`api/turns/${encodeURIComponent(agent)}/${encodeURIComponent(id || "")}`, filters, { signal });
  const turn = await find().catch((error) => {
    if (error.status !== 404 || !id) throw error;
    arrival(find, () => true, signal).then(reload);
    throw new ApiError(404, `${error.message} If it has just ended, it appears here by itself.`);
  });
  document.title = `${agentName(agent)}, ${dateTime(turn.at)} · agentic-discord`;
  const said = words(turn), replay = turn.calls.some((call) => call.words) ? replayPanel(turn) : null;
  fill(root, steps(turn, filters), heading(turn), summary(turn), posts(turn), timeCard(turn), callsCard(turn), said, skippedCard(turn), replay);
  if (isComing(turn)) arrival(find, (found) => !isComing(found), signal).then((found) => {
    said[0].replaceWith(...words(found));
    for (const node of said.slice(1)) node.remove();
    if (!replay) root.append(replayPanel(found));
  });
}

const isComing = (turn) => me.prompts && Date.now() / 1000 - turn.at < ON_ITS_WAY && turn.calls.some((call) => !call.words && call.kind !== "picture");

// Waits until the history has the turn as wanted: asks for it whenever the history has something new.
function arrival(find, isThere, signal) {
  return new Promise((resolve) => {
    let leave = () => {}, done = false;
    const end = () => { done = true; leave(); };
    const look = async () => {
      const turn = await find().catch(() => null); // the next event comes
      if (done || !turn || !isThere(turn)) return;
      end();
      resolve(turn);
    };
    signal.addEventListener("abort", end);
    join((kind) => kind === "turns" && look()).then(([, left]) => {
      leave = left;
      if (done || signal.aborted) leave();
      else look(); // it may have come meanwhile
    }, () => {}); // the page is there without the stream
  });
}

// --- the way through the list ---

let walking = ""; // the link that led here from the turn before, which has the focus again

function steps(turn, filters) {
  const step = (name, other, text) => {
    const link = other
      ? h("a", { class: "button", href: turnAddress(other, filters), title: `${agentName(other.agent)}, ${dayAndClock(other.at)}`, onclick: () => { walking = name; } }, text)
      : h("button", { type: "button", disabled: true }, text);
    if (walking === name) setTimeout(() => link.focus());
    return link;
  };
  const sorted = filters.order ? ["← Previous", "Next →"] : ["← Newer", "Older →"];
  const node = h("nav", { class: "row apart steps", "aria-label": "Turns in the list" },
    h("a", { href: turnsAddress(filters) }, "All turns"),
    h("div", { class: "row" }, step("newer", turn.newer, sorted[0]), step("older", turn.older, sorted[1])));
  walking = "";
  return node;
}

// --- what happened ---

function heading(turn) {
  return h("div", { class: "page-head" }, avatar(turn.agent),
    h("div", null, h("h1", null, agentName(turn.agent)), h("div", { class: "row" }, h("span", { class: "muted" }, dateTime(turn.at)), outcomeChip(turn))),
    h("div", { class: "row" },
      turn.conversation && h("a", { class: "button", href: conversationAddress(turn.conversation.id) }, "Conversation"),
      turn.channel.room ? h("a", { class: "button", href: `#/room/${turn.channel.id}` }, "Room") : h("a", { class: "button", href: `#/live/${turn.channel.id}` }, "Live"),
      turn.posts[0]?.link && h("a", { class: "button", href: turn.posts[0].link, target: "_blank", rel: "noopener noreferrer" }, "In Discord")));
}

function summary(turn) {
  const did = alsoDid(turn);
  const talk = turn.conversation;
  return card("Trigger",
    h("p", null, agentChip(turn.agent), " ", h("span", { title: turn.asked_by && `person ${turn.asked_by}` }, turn.room_turn ? `took turn ${turn.room_turn}` : calledBy(turn)), " in ", placeLink(turn.channel), did && ` and ${did}`, "."),
    talk && h("p", null, "Conversation: ", h("a", { href: conversationAddress(talk.id) }, turn.channel.room ? "in this room" : talk.topic || `${talk.theme}, without a topic`), h("span", { class: "muted" }, ` (${talk.theme}, round ${turn.round || 1}${talk.ended_at ? ` of ${talk.rounds}` : ""})`)),
    turn.asked_message_id && h("p", null, "The message that triggered it: ", message(turn.asked_link, turn.asked_message_id, turn.asked_text), "."),
    turn.reacted_to && h("p", null, "It reacted to the message ", message(turn.reacted_link, turn.reacted_to, turn.reacted_text), "."),
    turn.reason_text && h("p", null, h("b", null, turn.outcome === "posted" ? "It couldn't do everything: " : "Why: "), turn.reason_text, "."));
}

// Its words where the Live page still has them, else its id.
function message(link, id, text) {
  const name = text ? h("q", { title: `message ${id}`, dir: "auto" }, text) : h("span", { class: "mono" }, id);
  return link ? [name, ", ", h("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, "in Discord")] : name;
}

function posts(turn) {
  if (!turn.posts.length) return null;
  return h("section", { class: "card", "aria-label": "Posts" }, h("h2", null, turn.posts.length === 1 ? "What it posted" : `What it posted, in ${turn.posts.length} messages`),
    turn.posts.map((post) => postNode(turn.agent, post)));
}

// --- time and money ---

function timeCard(turn) {
  const rows = timeline(turn);
  const whole = Math.max(turn.seconds, ...rows.map((row) => row.begin + row.seconds), 0.001);
  const step = STEPS.find((each) => whole / each <= 6) || STEPS.at(-1);
  const place = (from) => `${(100 * from) / whole}%`;
  const ticks = Array.from({ length: Math.floor(whole / step + 1e-9) + 1 }, (_, n) => n * step);
  return card("Time and cost",
    h("div", { class: "figures" },
      figure(seconds(turn.seconds), "in all"), figure(money(turn.cost_usd), "cost"),
      figure(tokens(turn.input_tokens), `tokens in, ${percent(share(turn.cached_tokens, turn.input_tokens))} cached`),
      figure(tokens(turn.output_tokens), "tokens out"), figure(count(turn.entries), "messages read")),
    rows.length > 0 && h("div", { class: "waterfall" },
      h("div", { class: "fall-axis", "aria-hidden": "true" }, h("div", { class: "fall-track" },
        ticks.map((at) => h("span", { style: { left: place(at) } }, at ? axisText(at) : "0")))),
      h("ol", null, rows.map((row) => h("li", { class: row.error ? "fall-row failed" : "fall-row", title: row.about },
        h("span", { class: "fall-name" }, row.name, row.note && h("span", { class: "muted" }, ` ${row.note}`), row.error && [" ", chip(row.error, "bad")]),
        h("span", { class: "fall-track", "aria-hidden": "true" },
          ticks.map((at) => h("i", { style: { left: place(at) } })),
          h("span", { class: `fall-bar phase-${row.kind}`, style: { left: place(Math.min(row.begin, whole)), width: place(row.seconds) } })),
        h("span", { class: "fall-number" }, seconds(row.seconds)),
        h("span", { class: "fall-number fall-cost" }, row.cost ? money(row.cost) : ""))))));
}

const STEPS = [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600];
const axisText = (at) => (at < 60 ? `${Number(at.toFixed(2))} s` : `${Number((at / 60).toFixed(1))} min`);
const CALLS = { text: "Model", picture: "Picture", gate: "May it speak?", summary: "Summary", profile: "Topics of a person", card: "Card of the room", ledger: "Arguments in the room", judge: "Verdict on the room" };

// What took the turn's time, in order: { name, note, about, kind, begin, seconds, cost, error }. Calls and tools stand
// at their times; the other phases are known by their length, and by what they come before or after. The time in the
// queue comes before the turn's own.
function timeline(turn) {
  const { waiting, context, posting } = turn.phases;
  const first = Math.min(turn.at - posting, ...[...turn.calls, ...turn.tools].map((each) => each.at));
  const began = Math.min(turn.at - turn.seconds, first - context - waiting);
  const tries = {}; // kind of call → how many have failed since one succeeded
  const calls = turn.calls.map((call) => {
    const again = tries[call.kind] || 0;
    tries[call.kind] = call.error ? again + 1 : 0;
    const note = [call.model.split("/").at(-1), again > 0 && `try ${again + 1}`].filter(Boolean).join(", ");
    return { name: CALLS[call.kind] || call.kind, note, kind: call.kind === "picture" ? "posting" : "model", at: call.at, seconds: call.seconds, cost: call.cost_usd,
      error: call.error && errorText(call.error), about: `${call.model}: ${count(call.input_tokens)} tokens in, ${count(call.output_tokens)} out` };
  });
  const queries = new Map(turn.searches.map((search) => [search.n, `“${search.query}”, ${several(search.pages.length, "page")}`]));
  const used = turn.tools.map((tool) => ({ name: tool.name, note: queries.get(tool.n) || "", kind: "tools", at: tool.at, seconds: tool.seconds,
    error: tool.error && "failed", about: `${several(tool.characters, "character")} of result` }));
  const placed = [...calls, ...used].sort((one, other) => one.at - other.at)
    .map((each) => ({ ...each, begin: Math.max(0, each.at - began) }));
  return [
    waiting > 0 && { name: "Waiting", kind: "waiting", begin: 0, seconds: waiting, about: "in the queue, and for limits to be checked" },
    context > 0 && { name: "Context", kind: "context", begin: waiting, seconds: context, about: "reading the channel and building the prompt" },
    ...placed,
    posting > 0 && { name: "Posting", kind: "posting", begin: Math.max(0, turn.at - posting - began), seconds: posting, about: "sending the answer, and drawing pictures" },
  ].filter(Boolean);
}

const share = (part, whole) => (whole ? part / whole : 0);

// Of the calls: heading, cell, and the field that some call must have for the column to be there.
const COLUMNS = [
  ["Tokens in", (call) => count(call.input_tokens)],
  ["Cached", (call) => `${count(call.cached_tokens)} (${percent(share(call.cached_tokens, call.input_tokens))})`],
  ["Written to cache", (call) => count(call.cache_write_tokens), "cache_write_tokens"],
  ["Tokens out", (call) => count(call.output_tokens)],
  ["Reasoning", (call) => count(call.reasoning_tokens), "reasoning_tokens"],
  ["Searches", (call) => count(call.searches), "searches"],
  ["Took", (call) => seconds(call.seconds)],
  ["Cost", (call) => money(call.cost_usd)],
];

function callsCard(turn) {
  if (!turn.calls.length) return card("Model calls", h("p", { class: "muted" }, "No model was called."));
  const any = (name) => turn.calls.some((call) => call[name] > 0);
  const columns = COLUMNS.filter(([, , name]) => !name || any(name));
  const rows = turn.calls.map((call) => [
    h("span", null, call.model || "unknown", call.kind === "picture" && [" ", chip("picture")], call.error && [" ", chip(errorText(call.error), "bad")]),
    ...columns.map(([, cell]) => cell(call)),
  ]);
  return card(turn.calls.length === 1 ? "Model call" : `${turn.calls.length} model calls`, numberTable("Model calls", ["Model", ...columns.map(([name]) => name)], rows, "stacks"));
}

// "RateLimited" → "rate limited"
const errorText = (error) => error.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

// --- words ---

function words(turn) {
  const many = turn.calls.length > 1;
  const compared = turn.calls.find((call) => call.words && call.kind === "text");
  return turn.calls.map((call) => {
    const title = many ? `Call ${call.n + 1}: ${call.model}` : "What the model saw and wrote";
    return card(title, call.words ? promptView(turn.agent, call, call === compared ? turn : null) : h("p", { class: "muted" }, call.no_words));
  });
}

function skippedCard(turn) {
  if (!turn.skipped.length) return null;
  return card("Bots that stayed silent before it in this round", h("ul", { class: "plain" }, turn.skipped.map((other) =>
    h("li", { class: "row" }, agentChip(other.agent), outcomeChip(other), h("span", null, other.reason_text || ""), h("a", { href: turnAddress(other) }, at(other.at))))));
}
