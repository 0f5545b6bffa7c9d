// The agents as cards: whether each works, why it is silent, what it did today. Below: the state of the record.
import { agentActions, orderList } from "./actions.js";
import { figures, hindrances, lastErrors, onlineChip } from "./agent_state.js";
import { get } from "./api.js";
import { avatar, card, coloured, fill, h } from "./dom.js";
import { bytes, count, dateTime, several } from "./format.js";
import { turnsAddress } from "./turn_words.js";

const AGAIN_MS = 15000;

export async function render(root, { signal }) {
  const cards = h("div", { class: "stack" }), orders = h("div");
  const show = async () => {
    const [{ items }, active] = await Promise.all([get("api/agents", {}, { signal }), get("api/orders", {}, { signal })]);
    const bots = items.filter((agent) => !agent.persona), personas = items.filter((agent) => agent.persona);
    fill(cards, h("div", { class: "agents" }, bots.map(agentCard)),
      personas.length > 0 && [h("h2", { class: "day-head" }, "Personas, which speak in rooms"), h("div", { class: "agents small" }, personas.map(agentCard))]);
    fill(orders, active.items.length > 0 && card("Silenced", orderList(active.items)));
  };
  const history = h("div"); // at the page's end, so that a slow line shows the agents first
  get("api/record", {}, { signal }).then((record) => fill(history, recordCard(record)),
    (error) => error.name !== "AbortError" && fill(history, card("The history", h("p", { class: "problem" }, error.message))));
  await show();
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Agents")), cards, orders, history);
  const again = () => cards.contains(document.activeElement) || orders.contains(document.activeElement) || show().catch(() => {}); // what has the focus stays
  const timer = setInterval(again, AGAIN_MS);
  const acted = () => show().catch(() => {});
  window.addEventListener("acted", acted);
  return () => {
    clearInterval(timer);
    window.removeEventListener("acted", acted);
  };
}

// --- a card ---

function agentCard(agent) {
  const address = `#/agent/${encodeURIComponent(agent.agent)}`;
  return coloured(h("article", { class: "card agent-card" },
    h("div", { class: "agent-head" }, avatar(agent.agent, agent.name),
      h("div", null, h("h2", null, h("a", { href: address }, agent.name)), onlineChip(agent)),
      agentActions({ key: agent.agent, name: agent.name, muted_until: agent.muted_until })),
    hindrances(agent),
    ...figures(agent),
    lastErrors(agent),
    h("p", { class: "row" }, h("a", { href: turnsAddress({ agent: agent.agent }) }, "Turns"), h("a", { href: address }, agent.persona ? "Persona" : "Persona, memory, models"))), agent.agent);
}

// --- the record ---

function recordCard(record) {
  if (record.days === 0) return card("The history", h("p", { class: "muted" }, "Nothing is recorded: RECORD_DAYS is 0. Set it to a number of days in .env and restart."));
  const { state } = record;
  if (record.problem) return card("The history", h("p", { class: "problem" }, `Nothing is recorded: ${record.problem}. The bots keep running.`));
  if (!state) return card("The history", h("p", { class: "muted" }, record.elsewhere ? "Another process writes the history in its own data folder. That process's console shows it." : "Nothing is recorded yet. The first turn creates the file."));
  const dropped = Object.entries(state.dropped).filter(([, number]) => number > 0);
  const fact = (name, value) => [h("dt", null, name), h("dd", null, value)];
  return card("The history", h("dl", { class: "facts" },
    fact("Recorder", recorder(record.recorder, record.elsewhere)),
    fact("Size", `${bytes(state.bytes)}${state.free_bytes > 1e6 ? `, ${bytes(state.free_bytes)} of it free for new entries` : ""}`),
    fact("Turns", `${count(state.counts.turns)}${state.oldest ? `, since ${dateTime(state.oldest)}` : ""}`),
    fact("Also recorded", [["conversation", "conversations"], ["post", "posts"], ["prompt", "words"], ["reaction", "reactions"]].map(([name, key]) => several(state.counts[key], name)).join(", ")),
    fact("Kept", `${keeps("turns", record.days)} (RECORD_DAYS), ${keeps("prompts", record.prompts_days)} (RECORD_PROMPTS_DAYS)`),
    fact("Dropped", dropped.length ? dropped.map(([stream, number]) => `${several(number, "entry", "entries")} of ${stream}`).join(", ") : "0 entries")));
}

function recorder(acts, elsewhere) {
  if (acts === null) return "unknown: Redis doesn't answer";
  if (elsewhere) return "another process is writing it now, in its own data folder";
  return acts ? "a process is writing it now" : h("span", { class: "problem" }, "no process is writing it now; new entries wait in Redis, up to a limit");
}

const keeps = (what, days) => (days === null ? `${what} forever` : days === 0 ? `no ${what}` : `${what} for ${days} days`);
