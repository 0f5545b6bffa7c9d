// One turn: why it said what it said. What called it, what it saw, what the model wrote, what that took and cost.
import { get } from "./api.js";
import { agentChip, agentName, at, avatar, card, channelLink, chip, figure, fill, h, numberTable } from "./dom.js";
import { count, dateTime, money, percent, seconds, tokens } from "./format.js";
import { me } from "./me.js";
import { postNode } from "./posts.js";
import { promptView } from "./prompt_view.js";
import { replayPanel } from "./replay.js";
import { alsoDid, calledBy, conversationAddress, outcomeChip, turnAddress } from "./turn_words.js";

const PHASES = [
  ["waiting", "Waiting", "in the queue, and for limits to be checked"],
  ["context", "Context", "reading the channel and building the prompt"],
  ["model", "Model", "waiting for the model"],
  ["tools", "Tools", "waiting for tools"],
  ["posting", "Posting", "sending the answer, and drawing pictures"],
];

const ON_ITS_WAY = 4; // seconds in which a turn that has just ended, and then its words, reach the record

export async function render(root, { parts: [agent, id], signal }) {
  const turn = await arrived(`api/turns/${encodeURIComponent(agent)}/${encodeURIComponent(id || "")}`, signal);
  document.title = `${agentName(agent)}, ${dateTime(turn.at)} · agentic-discord`;
  fill(root, heading(turn), summary(turn), posts(turn), timeCard(turn), callsCard(turn), words(turn), toolsCard(turn), skippedCard(turn));
  if (turn.calls.some((call) => call.words)) root.append(replayPanel(turn));
}

async function arrived(path, signal) {
  for (const began = Date.now(); ; await new Promise((resolve) => setTimeout(resolve, 500))) {
    const late = Date.now() - began > ON_ITS_WAY * 1000;
    try {
      const turn = await get(path, {}, { signal });
      const isNew = Date.now() / 1000 - turn.at < ON_ITS_WAY;
      if (late || !isNew || !me.prompts || turn.calls.every((call) => call.words || call.kind === "picture")) return turn;
    } catch (error) {
      if (late || error.status !== 404) throw error;
    }
  }
}

// --- what happened ---

function heading(turn) {
  return h("div", { class: "page-head" }, avatar(turn.agent),
    h("div", null, h("h1", null, agentName(turn.agent)), h("span", { class: "muted" }, dateTime(turn.at))),
    outcomeChip(turn),
    h("div", { class: "row" },
      turn.conversation && h("a", { class: "button", href: conversationAddress(turn.conversation.id) }, "Conversation"),
      h("a", { class: "button", href: `#/live/${turn.channel.id}` }, "Live"),
      turn.posts[0]?.link && h("a", { class: "button", href: turn.posts[0].link, target: "_blank", rel: "noopener noreferrer" }, "In Discord")));
}

function summary(turn) {
  const did = alsoDid(turn);
  const talk = turn.conversation;
  return card("What called it",
    h("p", null, agentChip(turn.agent), " ", h("span", { title: turn.asked_by && `person ${turn.asked_by}` }, calledBy(turn)), " in ", channelLink(turn.channel.id), did && ` and ${did}`, "."),
    talk && h("p", null, "Conversation: ", h("a", { href: conversationAddress(talk.id) }, talk.topic || `${talk.theme}, without a topic`), h("span", { class: "muted" }, ` (${talk.theme}, round ${turn.round || 1}${talk.ended_at ? ` of ${talk.rounds}` : ""})`)),
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
  const known = PHASES.map(([key, name, why]) => ({ key, name, why, value: turn.phases[key] || 0 })).filter(({ value }) => value > 0);
  const rest = turn.seconds - known.reduce((sum, { value }) => sum + value, 0);
  if (known.length && rest > 0.05) known.push({ key: "rest", name: "Other", why: "checks and Redis", value: rest });
  const whole = Math.max(turn.seconds, known.reduce((sum, { value }) => sum + value, 0)) || 1;
  const bar = h("div", { class: "phases", role: "img", "aria-label": known.map(({ name, value }) => `${name} ${seconds(value)}`).join(", ") },
    known.map(({ key, name, value }) => h("span", { class: `phase phase-${key}`, title: `${name}: ${seconds(value)}`, style: { width: `${(100 * value) / whole}%` } })));
  const legend = h("ul", { class: "phase-legend" }, known.map(({ key, name, why, value }) =>
    h("li", { title: why }, h("span", { class: `phase-dot phase-${key}`, "aria-hidden": "true" }), name, " ", h("b", null, seconds(value)))));
  return card("Time and cost",
    h("div", { class: "figures" },
      figure(seconds(turn.seconds), "from its beginning to its end"), figure(money(turn.cost_usd), "cost"),
      figure(tokens(turn.input_tokens), `tokens in, ${percent(share(turn.cached_tokens, turn.input_tokens))} cached`),
      figure(tokens(turn.output_tokens), "tokens out"), figure(count(turn.entries), "messages read")),
    known.length > 0 && [bar, legend]);
}

const share = (part, whole) => (whole ? part / whole : 0);

function callsCard(turn) {
  if (!turn.calls.length) return card("Model calls", h("p", { class: "muted" }, "No model was called."));
  const rows = turn.calls.map((call) => [
    h("span", null, call.model || "unknown", call.kind === "picture" && [" ", chip("picture")], call.error && [" ", chip(errorText(call.error), "bad")]),
    count(call.input_tokens), `${count(call.cached_tokens)} (${percent(share(call.cached_tokens, call.input_tokens))})`,
    count(call.cache_write_tokens), count(call.output_tokens), count(call.reasoning_tokens),
    count(call.searches), seconds(call.seconds), money(call.cost_usd),
  ]);
  const headings = ["Model", "Tokens in", "of them cached", "written to cache", "Tokens out", "of them reasoning", "Searches", "Took", "Cost"];
  return card(turn.calls.length === 1 ? "Model call" : `${turn.calls.length} model calls`, numberTable("Model calls", headings, rows));
}

// "RateLimited" → "rate limited"
const errorText = (error) => error.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

// --- words ---

function words(turn) {
  const several = turn.calls.length > 1;
  return turn.calls.map((call) => {
    const title = several ? `Call ${call.n + 1}: ${call.model}` : "What the model saw and wrote";
    return card(title, call.words ? promptView(turn.agent, call) : h("p", { class: "muted" }, call.no_words));
  });
}

function toolsCard(turn) {
  if (!turn.tools.length) return null;
  const queries = new Map(turn.searches.map((search) => [search.n, `: ${search.query} (${search.pages.length})`]));
  return card("Tools", numberTable("Tools", ["Tool", "At", "Took", "Characters of its result"], turn.tools.map((tool) => [
    h("span", null, tool.name, queries.get(tool.n) || "", tool.error && [" ", chip("failed", "bad")]), at(tool.at), seconds(tool.seconds), count(tool.characters)])));
}

function skippedCard(turn) {
  if (!turn.skipped.length) return null;
  return card("Bots that stayed silent before it in this round", h("ul", { class: "plain" }, turn.skipped.map((other) =>
    h("li", { class: "row" }, agentChip(other.agent), outcomeChip(other), h("span", null, other.reason_text || ""), h("a", { href: turnAddress(other) }, at(other.at))))));
}
