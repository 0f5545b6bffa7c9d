// The agents as cards: which one works, which one is silent and why, what it did today. Below: the state of the record.
import { agentActions, orderList } from "./actions.js";
import { get } from "./api.js";
import { at, avatar, card, channelText, chip, coloured, fill, h, meter, when } from "./dom.js";
import { bytes, cents, count, dateTime, dayAndClock, seconds, several } from "./format.js";
import { shownEmoji } from "./markup.js";
import { outcomeChip, OUTCOMES, turnAddress, turnsAddress } from "./turn_words.js";

const AGAIN_MS = 15000;

export async function render(root, { signal }) {
  const cards = h("div", { class: "agents" }), orders = h("div");
  const show = async () => {
    const [{ items }, active] = await Promise.all([get("api/agents", {}, { signal }), get("api/orders", {}, { signal })]);
    fill(cards, items.map(agentCard));
    fill(orders, active.items.length > 0 && card("Silenced", orderList(active.items)));
  };
  const [, record] = await Promise.all([show(), get("api/record", {}, { signal })]);
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Agents")), cards, orders, recordCard(record));
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
    h("div", { class: "row apart" },
      h("div", { class: "row" }, avatar(agent.agent, agent.name), h("h2", null, h("a", { href: address }, agent.name)), onlineChip(agent)),
      agentActions({ key: agent.agent, name: agent.name, muted_until: agent.muted_until })),
    hindrances(agent),
    ...figures(agent),
    lastErrors(agent),
    h("p", { class: "row" }, h("a", { href: turnsAddress({ agent: agent.agent }) }, "its turns"), h("a", { href: address }, "persona, memory, models"))), agent.agent);
}

// The services beside Discord on which its account is connected.
const connected = (agent) => Object.keys(agent.accounts).filter((name) => agent.accounts[name]);

export function onlineChip(agent) {
  const ms = agent.latency === null ? "" : ` · ${Math.round(agent.latency * 1000)} ms`;
  if (agent.online) return h("span", { class: "chip good", title: ms ? "to Discord’s gateway and back" : "" }, `online${ms}`);
  const elsewhere = connected(agent);
  return elsewhere.length ? chip(`on ${elsewhere.join(", ")}`, "good") : chip("offline", "bad");
}

// Why it is silent, the gravest first; nothing if all is well.
export function hindrances(agent) {
  const now = Date.now() / 1000;
  const cooling = agent.cooldowns.filter((each) => each.until > now);
  const lines = [
    agent.failure && `Its bot failed: ${agent.failure}.`,
    ...Object.keys(agent.accounts).filter((name) => !agent.accounts[name]).map((name) => `Its account on ${name} isn't connected. Is the server for ${name} running?`),
    !agent.online && !Object.keys(agent.accounts).length && !agent.failure && "Its bot is offline. Either its process isn't running, or it has no token.",
    agent.muted_until > now && ["Muted until ", at(agent.muted_until), " (", when(agent.muted_until), ")."],
    agent.backoff_until > now && ["Its AI provider rejects its requests (key or quota). It tries again ", until(agent.backoff_until), "."],
    agent.turns_most !== null && agent.turns_today >= agent.turns_most && `Its ${count(agent.turns_most)} turns for today are used up (AGENT_MAX_DAILY).`,
    agent.cap !== null && agent.spent >= agent.cap && "Its budget for today is used up.",
    !agent.online && !connected(agent).length && agent.models.length > 0 && !agent.models.some((model) => model.usable && model.picture === null) && "None of its models has a key.",
    cooling.length > 0 && ["It just spoke in ", cooling.map(({ channel }) => channelText(channel)).join(", "), ". You can call it there again ", until(Math.max(...cooling.map((each) => each.until))), "."],
  ].filter(Boolean);
  if (!lines.length) return null;
  const grave = !(agent.online || connected(agent).length) || lines.length > (cooling.length ? 1 : 0);
  return h("ul", { class: grave ? "hindrances grave" : "hindrances" }, lines.map((line) => h("li", null, line)));
}

const until = (unix) => h("span", null, when(unix), " (", at(unix), ")");

export function figures(agent) {
  const turns = Object.entries(agent.outcomes).sort((one, other) => other[1] - one[1]);
  const link = ([outcome, number]) => h("a", { href: turnsAddress({ agent: agent.agent, outcome }), class: `chip ${(OUTCOMES[outcome] || ["", ""])[1]}` }, `${count(number)} ${(OUTCOMES[outcome] || [outcome])[0].toLowerCase()}`);
  return [
    turnsMeter(agent),
    agent.cap === null
      ? plainMeter("Cost today", `${cents(agent.spent)}, no limit of its own`)
      : meter("Cost today", agent.spent, agent.cap, `${cents(agent.spent)} of ${cents(agent.cap)}`),
    turns.length > 0 && h("div", { class: "row" }, turns.map(link)),
    speedLine(agent),
    agent.reactions.length > 0 && h("div", { class: "row", title: "Reactions to its posts in the last 30 days" }, agent.reactions.slice(0, 6).map(({ emoji, count: number }) => h("span", { class: "reaction" }, shownEmoji(emoji), " ", count(number)))),
  ];
}

// Turns of a model that costs nothing count towards no limit.
function turnsMeter({ turns_today: paid, turns_free: free, turns_most: most }) {
  if (free > 0 && !paid) return plainMeter("Turns today", `${count(free)}, free and without a limit`);
  if (most === null) return plainMeter("Turns today", `${count(paid + free)}, no limit`);
  return meter("Turns today", paid, most, `${count(paid)} of ${count(most)}${free > 0 ? `, and ${count(free)} free ones` : ""}`);
}

const plainMeter = (label, words) => h("div", { class: "meter-label" }, h("span", null, label), h("span", null, words));

function speedLine(agent) {
  const text = agent.speeds.filter((speed) => speed.kind === "text" && speed.calls);
  if (!text.length) return null;
  return h("p", { class: "muted" }, text.map((speed) => `${speed.model} answered in ${seconds(speed.mean)}, 95% within ${seconds(speed.p95)}`).join("; "));
}

export function lastErrors(agent) {
  if (!agent.errors.length) return null;
  return h("details", { open: agent.failures > 0 && agent.errors[0].at > Date.now() / 1000 - 3600 },
    h("summary", null, `Last failures: ${agent.errors[0].reason_text || agent.errors[0].outcome}, `, when(agent.errors[0].at)),
    h("ul", { class: "plain" }, agent.errors.map((turn) => h("li", { class: "row" }, h("a", { href: turnAddress(turn) }, dayAndClock(turn.at)), outcomeChip(turn), h("span", null, turn.reason_text || "")))));
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
    fact("Also", [["conversation", "conversations"], ["post", "posts"], ["prompt", "words"], ["reaction", "reactions"]].map(([name, key]) => several(state.counts[key], name)).join(", ")),
    fact("Kept", `${keeps("turns", record.days)} (RECORD_DAYS), ${keeps("prompts", record.prompts_days)} (RECORD_PROMPTS_DAYS)`),
    fact("Lost on the way", dropped.length ? dropped.map(([stream, number]) => `${several(number, "entry", "entries")} of ${stream}`).join(", ") : "nothing")));
}

function recorder(acts, elsewhere) {
  if (acts === null) return "unknown: Redis doesn't answer";
  if (elsewhere) return "another process is writing it now, in its own data folder";
  return acts ? "a process is writing it now" : h("span", { class: "problem" }, "no process is writing it now; new entries wait in Redis, up to a limit");
}

const keeps = (what, days) => (days === null ? `${what} for ever` : days === 0 ? `no ${what}` : `${what} for ${days} days`);
