// One agent: its state, models and prices, memory with where each entry comes from, persona files with their history.
import { agentActions } from "./actions.js";
import { figures, hindrances, lastErrors, onlineChip } from "./agents.js";
import { get } from "./api.js";
import { agentName, avatar, card, channelLink, chip, coloured, fill, h, numberTable } from "./dom.js";
import { cents, count, dateTime } from "./format.js";
import { personLink, turnAddress, turnsAddress } from "./turn_words.js";

export async function render(root, { parts: [name], query, signal }) {
  const agent = await get(`api/agents/${encodeURIComponent(name || "")}`, {}, { signal });
  document.title = `${agent.name} · agentic-discord`;
  const shown = agent.files.find((file) => file.name === query.get("file"))?.name || agent.files.find((file) => file.size !== null)?.name;
  const file = h("div", { class: "stack" });
  fill(root,
    h("div", { class: "page-head" }, avatar(agent.agent, agent.name), h("h1", null, agent.name), onlineChip(agent),
      h("div", { class: "row" }, h("a", { class: "button", href: turnsAddress({ agent: agent.agent }) }, "Its turns"), agentActions({ key: agent.agent, name: agent.name, muted_until: agent.muted_until }))),
    coloured(h("section", { class: "card agent-card", "aria-label": "State" }, hindrances(agent), ...figures(agent), lastErrors(agent)), agent.agent),
    models(agent),
    memory(agent),
    card("Persona files", ...agent.problems.map((problem) => h("p", { class: "problem" }, problem)), tabs(agent, shown, file), file));
  if (shown) await show(file, agent, shown, signal);
  else fill(file, h("p", { class: "muted" }, "It has no persona files, so it uses the built-in character."));
}

// --- models ---

function models(agent) {
  if (!agent.models.length) return null;
  const rows = agent.models.map((model) => {
    const name = h("span", null, model.model, !model.usable && [" ", chip("no key", "bad")], !model.known && [" ", chip("unknown price: treated as the provider’s most expensive model", "warn")]);
    if (model.picture !== null) return [name, "", "", `about ${cents(model.picture)} a picture`];
    if (!model.input && !model.output) return [name, "", "", "free"];
    return [name, cents(model.input), cents(model.cached), cents(model.output)];
  });
  return card("Models and prices", numberTable("Models and prices", ["Model, tried in this order", "Million tokens in", "of them cached", "Million tokens out"], rows));
}

// --- memory ---

function memory(agent) {
  if (!agent.memory.length) return card("Memory", h("p", { class: "muted" }, "It hasn't noted anything yet."));
  const nodes = [];
  let section = "";
  for (const entry of agent.memory) {
    if (entry.section !== section) nodes.push(h("h3", null, entry.section));
    section = entry.section;
    nodes.push(h("div", { class: "memory" }, h("p", { dir: "auto" }, entry.text.replace(/^\s*[-*+] /, "")), h("small", null, ...origin(entry))));
  }
  return card("Memory", h("p", { class: "muted" }, "Notes by the bot and its owner. The bot uses a note only if everyone there can read the channels it came from."), ...nodes);
}

// Who brought it about, where, when and in which turn.
function origin(entry) {
  if (!entry.readable) return [h("span", { class: "problem" }, "The comment that says where this note came from can't be read, so the bot doesn't use it. Correct it in memory.md.")];
  if (!entry.channels.length && !entry.people.length && !entry.others) return ["Written by the owner. The bot may use it in every channel."];
  const people = [...entry.people.map(({ id, name }) => personLink(id, name)), ...(entry.others ? [entry.people.length ? "others" : "unknown people"] : [])];
  return [
    "By ", joined(people), entry.channels.length ? " in " : "", joined(entry.channels.map(({ id }) => channelLink(id))),
    entry.added_at ? `, ${dateTime(entry.added_at)}` : ", before the oldest stored version",
    entry.turn && [", in ", h("a", { href: turnAddress(entry.turn) }, "this turn")], ".",
  ].filter((part) => part !== "");
}

const joined = (nodes) => nodes.flatMap((node, n) => (n ? [", ", node] : [node]));

// --- files ---

function tabs(agent, shown, file) {
  const buttons = agent.files.filter(({ size }) => size !== null).map(({ name }) => h("button", {
    type: "button", "aria-current": name === shown && "true", onclick: async (event) => {
      for (const other of buttons) other.removeAttribute("aria-current");
      event.currentTarget.setAttribute("aria-current", "true");
      history.replaceState(null, "", `#/agent/${encodeURIComponent(agent.agent)}?file=${encodeURIComponent(name)}`);
      await show(file, agent, name);
    } }, name));
  return h("div", { class: "tabs", role: "group", "aria-label": `Files of ${agentName(agent.agent)}` }, buttons);
}

async function show(place, agent, name, signal) {
  const file = await get(`api/agents/${encodeURIComponent(agent.agent)}/files/${encodeURIComponent(name)}`, {}, { signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    return { text: null, changes: [], error: error.message };
  });
  fill(place,
    file.text === null ? h("p", { class: "muted" }, file.error || "The file is not there, or cannot be read.") : h("pre", { dir: "auto", class: "persona-file" }, file.text),
    h("h3", null, file.changes.length ? "Its last changes" : "No earlier version is stored."),
    h("p", { class: "muted" }, file.changes.length ? "What was edited by hand is part of the next change." : "The program keeps the ten versions before each of its own changes."),
    file.changes.map(change));
}

function change(each, n) {
  const words = `${count(each.added)} ${each.added === 1 ? "line" : "lines"} added, ${count(each.removed)} removed`;
  return h("details", { open: n === 0 }, h("summary", null, `${each.at ? dateTime(each.at) : "At an unknown time"}: ${words}`),
    each.lines === null ? h("p", { class: "muted" }, "These versions are too long to compare here.") : h("pre", { class: "diff" }, each.lines.map(diffLine)));
}

const NAMES = { "+": "added", "-": "removed" };

function diffLine({ sign, text }) {
  if (sign === "@") return h("span", { class: "diff-gap" }, "⋯\n");
  const kind = NAMES[sign] || "same";
  return h("span", { class: `diff-${kind}` }, h("span", { class: "hidden" }, kind === "same" ? "" : `${kind}: `), `${sign} ${text}\n`);
}
