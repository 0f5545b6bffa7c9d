// "why?" on a bot's message: why this bot had the turn, what that took and cost, as a panel beside the message.
import { get } from "./api.js";
import { agentName, coloured, h } from "./dom.js";
import { count, money, percent, seconds, several } from "./format.js";
import { openPopover } from "./popover.js";
import { calledBy, turnAddress } from "./turn_words.js";

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// A turn ends just after its post, so for a new message the page waits a moment.
export async function turnOf(message) {
  const isNew = Math.abs(Date.now() / 1000 - message.at) < 5;
  for (let left = isNew ? 4 : 0; ; left--) {
    try {
      return await get(`api/live/why/${message.id}`);
    } catch (error) {
      if (error.status !== 404 || left <= 0) throw error;
      await pause(800);
    }
  }
}

// The button, or null for a message that no turn led to.
export function whyButton(message) {
  const { agent } = message.author;
  if (!agent || message.notice) return null;
  const open = (event) => openPopover(event.currentTarget, `Why ${agentName(agent)} wrote this`, async () => explained(await turnOf(message)), "why-panel");
  return h("button", { type: "button", class: "why", "aria-haspopup": "dialog", title: "Why this bot, which model, what it cost", onclick: open }, "why?");
}

function explained(turn) {
  const because = turn.chosen_because ? `Why this bot: ${turn.chosen_because}.` : turn.policy && `Who speaks next: ${turn.policy}.`;
  return [
    h("p", { class: "lead" }, h("b", null, agentName(turn.agent)), ` ${calledBy(turn)}.`),
    because && h("p", null, because),
    turn.scores.length > 0 && scoreList(turn.scores, turn.agent),
    turn.reason_text && h("p", { class: "problem" }, `It couldn't do everything: ${turn.reason_text}.`),
    h("dl", { class: "facts" },
      fact("Model", turn.model || "unknown"),
      fact("Cost", turn.cost_usd ? money(turn.cost_usd) : "free"),
      fact("Took", seconds(turn.seconds)),
      fact("Read", `${several(turn.entries, "message")}, ${count(turn.input_tokens)} tokens${turn.cached_tokens ? ` (${percent(turn.cached_tokens / turn.input_tokens)} from cache)` : ""}`),
      fact("Wrote", `${count(turn.output_tokens)} tokens`)),
    turn.has_page && h("div", { class: "row" }, h("a", { class: "button", href: turnAddress(turn) }, "Open the turn")),
  ];
}

const fact = (name, value) => [h("dt", null, name), h("dd", null, value)];

// The scores of a choice as bars, each with what it is made of.
export function scoreList(scores, chosen) {
  const most = Math.max(...scores.map((score) => score.strength), 0.01);
  return h("ol", { class: "score-list", "aria-label": "Scores" }, scores.map((score) => coloured(h("li", { "aria-current": score.agent === chosen && "true" },
    h("div", { class: "row apart" }, h("b", { class: "agent-name" }, agentName(score.agent)), h("span", { class: "number" }, score.strength.toFixed(2))),
    h("span", { class: "meter-bar", "aria-hidden": "true" }, h("span", { style: { width: `${Math.max(0, Math.min(1, score.strength / most)) * 100}%` } })),
    h("small", null, parts(score))), score.agent)));
}

function parts({ parts: given, channel }) {
  const words = [...given].sort((a, b) => b.amount - a.amount).map(({ why, amount }) => `${why} ${amount < 0 ? "−" : "+"}${Math.abs(amount).toFixed(2)}`);
  if (channel < 1) words.push(`× ${channel.toFixed(2)} after silent turns`);
  return words.join(", ");
}
