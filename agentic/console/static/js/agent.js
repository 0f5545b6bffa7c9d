// One agent: its state, its results in votes, models and prices, memory with the origin of each entry, persona files.
import { agentActions } from "./actions.js";
import { figures, hindrances, lastErrors, onlineChip } from "./agent_state.js";
import { get } from "./api.js";
import { seasonCard } from "./arena.js";
import { avatar, card, chip, coloured, fill, h, numberTable } from "./dom.js";
import { cents, dateTime } from "./format.js";
import { personaFiles } from "./persona_files.js";
import { personLink, placeLink, turnAddress, turnsAddress } from "./turn_words.js";

export async function render(root, { parts: [name], query, signal }) {
  const [agent, season] = await Promise.all([
    get(`api/agents/${encodeURIComponent(name || "")}`, {}, { signal }), seasonCard(name || "", signal)]);
  document.title = `${agent.name} · agentic-discord`;
  fill(root,
    h("div", { class: "page-head" }, avatar(agent.agent, agent.name), h("h1", null, agent.name), onlineChip(agent),
      h("div", { class: "row" }, h("a", { class: "button", href: turnsAddress({ agent: agent.agent }) }, "Its turns"), agentActions({ key: agent.agent, name: agent.name, muted_until: agent.muted_until }))),
    coloured(h("section", { class: "card agent-card", "aria-label": "State" }, hindrances(agent), ...figures(agent), lastErrors(agent)), agent.agent),
    season,
    models(agent),
    memory(agent),
    personaFiles(agent, query.get("file"), signal));
}

// --- models ---

function models(agent) {
  if (!agent.models.length) return null;
  const rows = agent.models.map((model) => {
    const name = h("span", null, model.model, !model.usable && [" ", chip("no key", "bad")], !model.known && [" ", chip("unknown price: treated as the provider’s most expensive model", "warn")]);
    if (model.picture !== null) return [name, "", "", `about ${cents(model.picture)} a picture`];
    if (!model.input && !model.output) return [name, "free", "free", "free"];
    return [name, cents(model.input), cents(model.cached), cents(model.output)];
  });
  return card("Models and prices", h("p", { class: "muted" }, "The bot tries them in this order. Prices are for a million tokens."), numberTable("Models and prices", ["Model", "Input", "Cached input", "Output"], rows, "stacks"));
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
  if (!entry.readable) return [h("span", { class: "problem" }, "The comment with this note's origin can't be read, so the bot doesn't use the note. Correct it in memory.md.")];
  if (!entry.channels.length && !entry.people.length && !entry.others) return ["Written by the owner. The bot may use it in every channel."];
  const people = [...entry.people.map(({ person, name }) => personLink(person, name)), ...(entry.others ? [entry.people.length ? "others" : "unknown people"] : [])];
  return [
    "By ", joined(people), entry.channels.length ? " in " : "", joined(entry.channels.map(placeLink)),
    entry.added_at ? `, ${dateTime(entry.added_at)}` : ", before the oldest stored version",
    entry.turn && [", in ", h("a", { href: turnAddress(entry.turn) }, "this turn")], ".",
  ].filter((part) => part !== "");
}

const joined = (nodes) => nodes.flatMap((node, n) => (n ? [", ", node] : [node]));
