// A bot's card: who it is, its model, and how its day went. It opens from a name in the chat or in the list of members.
import { agentActions } from "./actions.js";
import { hindranceLines, onlineChip } from "./agent_state.js";
import { get } from "./api.js";
import { agentName, avatar, chip, coloured, h } from "./dom.js";
import { cents, count } from "./format.js";
import { shownEmoji } from "./markup.js";
import { openPopover } from "./popover.js";
import { OUTCOMES, turnsAddress } from "./turn_words.js";

const address = (agent) => `#/agent/${encodeURIComponent(agent)}`;

export function openCard(button, agent) {
  return openPopover(button, agentName(agent), async () => coloured(h("div", { class: "stack" }, card(await get(`api/agents/${encodeURIComponent(agent)}/card`))), agent), "member-card");
}

function card(agent) {
  const model = agent.models.find(({ usable, picture }) => usable && picture === null);
  const lines = hindranceLines(agent);
  return [
    h("div", { class: "card-band", "aria-hidden": "true" }, avatar(agent.agent, agent.name)),
    h("div", { class: "row" }, onlineChip(agent), model && chip(model.model)),
    lines.length > 0 && h("ul", { class: "hindrances grave" }, lines.map((line) => h("li", null, line))),
    agent.about && h("p", { dir: "auto" }, agent.about),
    agent.interests.length > 0 && h("div", { class: "row", "aria-label": "Interests" }, agent.interests.slice(0, 8).map((one) => chip(one))),
    h("h3", null, "Today"),
    day(agent),
    h("p", { class: "row" }, h("a", { href: turnsAddress({ agent: agent.agent }) }, "Turns"), h("a", { href: address(agent.agent) }, "Persona, memory, models")),
    agentActions({ key: agent.agent, name: agent.name, muted_until: agent.muted_until }),
  ];
}

// Its day: its turns, people's reactions, its cost.
function day(agent) {
  const outcomes = Object.entries(agent.outcomes).sort((one, other) => other[1] - one[1]);
  const did = outcomes.map(([outcome, number]) => h("li", null, h("b", null, count(number)), ` ${(OUTCOMES[outcome] || [outcome])[0].toLowerCase()}`));
  return [
    h("ul", { class: "card-day" }, did.length ? did : h("li", { class: "muted" }, "no turn yet"), h("li", null, h("b", null, agent.spent ? cents(agent.spent) : "$0"), " spent")),
    agent.reactions.length > 0 && h("div", { class: "row", role: "group", "aria-label": "Reactions to its posts today" }, agent.reactions.map(({ emoji, count: number }) => h("span", { class: "reaction" }, shownEmoji(emoji), " ", count(number)))),
  ];
}
