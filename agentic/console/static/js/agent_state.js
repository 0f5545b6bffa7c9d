// What an agent is doing, as parts of pages: whether it is online, why it is silent, and its figures of today.
import { at, channelText, chip, h, meter, when } from "./dom.js";
import { cents, count, dayAndClock, seconds, soon } from "./format.js";
import { shownEmoji } from "./markup.js";
import { me } from "./me.js";
import { outcomeChip, OUTCOMES, turnAddress, turnsAddress } from "./turn_words.js";

// The services beside Discord on which its account is connected.
const connected = (agent) => Object.keys(agent.accounts).filter((name) => agent.accounts[name]);

export function onlineChip(agent) {
  const ms = agent.latency === null || me.local ? "" : ` · ${Math.round(agent.latency * 1000)} ms`;
  if (agent.online) return h("span", { class: "chip good", title: ms ? "to Discord’s gateway and back" : "" }, `online${ms}`);
  const elsewhere = connected(agent);
  if (elsewhere.length) return chip(`on ${elsewhere.join(", ")}`, "good");
  if (agent.persona) return agent.why_not ? chip("can’t speak", "warn") : chip("persona", "accent");
  return chip("offline", "bad");
}

// Why it is silent, as lines, the gravest first.
export function hindranceLines(agent) {
  const now = Date.now() / 1000;
  return [
    agent.failure && `Its bot failed: ${agent.failure}.`,
    ...Object.keys(agent.accounts).filter((name) => !agent.accounts[name]).map((name) => `Its account on ${name} isn't connected. Is the server for ${name} running?`),
    agent.why_not && `It can't take part in rooms: ${agent.why_not}.`,
    !agent.online && !agent.persona && !Object.keys(agent.accounts).length && !agent.failure && "Its bot is offline. Either its process isn't running, or it has no token.",
    agent.muted_until > now && ["Muted until ", soon(agent.muted_until), " (", when(agent.muted_until), ")."],
    agent.backoff_until > now && ["Its AI provider rejects its requests (key or quota). It tries again ", until(agent.backoff_until), "."],
    agent.turns_most !== null && agent.turns_today >= agent.turns_most && `Its ${count(agent.turns_most)} turns for today are used up (AGENT_MAX_DAILY).`,
    agent.cap !== null && agent.spent >= agent.cap && "Its budget for today is used up.",
    !agent.online && !agent.persona && !connected(agent).length && agent.models.length > 0 && !agent.models.some((model) => model.usable && model.picture === null) && "None of its models has a key.",
  ].filter(Boolean);
}

// The same as a box, with the channels of its cooldowns; nothing if all is well.
export function hindrances(agent) {
  const cooling = agent.cooldowns.filter((each) => each.until > Date.now() / 1000);
  const lines = [
    ...hindranceLines(agent),
    cooling.length > 0 && ["It just spoke in ", cooling.map(({ channel }) => channelText(channel)).join(", "), ". You can mention it there again ", until(Math.max(...cooling.map((each) => each.until))), "."],
  ].filter(Boolean);
  if (!lines.length) return null;
  const grave = !(agent.online || agent.persona || connected(agent).length) || Boolean(agent.why_not) || lines.length > (cooling.length ? 1 : 0);
  return h("ul", { class: grave ? "hindrances grave" : "hindrances" }, lines.map((line) => h("li", null, line)));
}

const until = (unix) => h("span", null, when(unix), " (", at(unix), ")");

export function figures(agent) {
  const turns = Object.entries(agent.outcomes).sort((one, other) => other[1] - one[1]);
  const link = ([outcome, number]) => h("a", { href: turnsAddress({ agent: agent.agent, outcome }), class: `chip ${(OUTCOMES[outcome] || ["", ""])[1]}` }, `${count(number)} ${(OUTCOMES[outcome] || [outcome])[0].toLowerCase()}`);
  return [
    turnsMeter(agent),
    agent.persona && !agent.spent && agent.cap === null ? null : agent.cap === null
      ? plainMeter("Cost today", cents(agent.spent))
      : meter("Cost today", agent.spent, agent.cap, `${cents(agent.spent)} of ${cents(agent.cap)}`),
    turns.length > 0 && h("div", { class: "row" }, turns.map(link)),
    speedLine(agent),
    agent.reactions.length > 0 && h("div", { class: "row", title: "Reactions to its posts in the last 30 days" }, agent.reactions.slice(0, 6).map(({ emoji, count: number }) => h("span", { class: "reaction" }, shownEmoji(emoji), " ", count(number)))),
  ];
}

// Turns of a model that costs nothing count towards no limit.
function turnsMeter({ turns_today: paid, turns_free: free, turns_most: most }) {
  if (free > 0 && !paid) return plainMeter("Turns today", `${count(free)}, free`);
  if (!paid && !free) return plainMeter("Turns today", most === null ? "none" : `none of ${count(most)}`);
  if (most === null) return plainMeter("Turns today", count(paid + free));
  return meter("Turns today", paid, most, `${count(paid)} of ${count(most)}${free > 0 ? `, and ${count(free)} free ones` : ""}`);
}

const plainMeter = (label, words) => h("div", { class: "meter-label" }, h("span", null, label), h("span", null, words));

function speedLine(agent) {
  const text = agent.speeds.filter((speed) => speed.kind === "text" && speed.calls);
  if (!text.length) return null;
  return h("p", { class: "muted" }, text.map((speed) => `${speed.model}: ${seconds(speed.mean)} on average, 95% within ${seconds(speed.p95)}`).join("; "));
}

export function lastErrors(agent) {
  if (!agent.errors.length) return null;
  return h("details", { open: agent.failures > 0 && agent.errors[0].at > Date.now() / 1000 - 3600 },
    h("summary", null, `Last failures: ${agent.errors[0].reason_text || agent.errors[0].outcome}, `, when(agent.errors[0].at)),
    h("ul", { class: "plain" }, agent.errors.map((turn) => h("li", { class: "row" }, h("a", { href: turnAddress(turn) }, dayAndClock(turn.at)), outcomeChip(turn), h("span", null, turn.reason_text || "")))));
}
