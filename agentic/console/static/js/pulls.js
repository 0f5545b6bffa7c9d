// Who speaks next, and why: the scores of the last choice in a channel or room, each with what it is made of.
import { get } from "./api.js";
import { agentName, at, coloured, fill, h } from "./dom.js";

// { node, look }: a panel that is there once a choice by scores is known; look() asks again.
export function pullsPanel(channel) {
  const body = h("div", { class: "stack" });
  const node = h("details", { class: "pulls", hidden: true }, h("summary", null, "Who speaks next, and why"), body);
  const look = async () => {
    const { choice } = await get(`api/pulls/${encodeURIComponent(channel)}`).catch(() => ({ choice: null }));
    node.hidden = !choice;
    if (choice) fill(body, explained(choice));
  };
  look();
  return { node, look };
}

function explained({ at: when, chosen, because, pulls }) {
  const most = Math.max(...pulls.map((pull) => pull.strength), 0.01);
  return [
    h("p", null, name(chosen), " was asked at ", at(when), because && `: ${because}`),
    h("ol", { class: "pull-list" }, pulls.map((pull) => h("li", null,
      h("div", { class: "row apart" }, name(pull.agent), h("span", { class: "number" }, pull.strength.toFixed(2))),
      h("span", { class: "meter-bar", "aria-hidden": "true" }, h("span", { style: { width: `${Math.max(0, Math.min(1, pull.strength / most)) * 100}%` } })),
      h("ul", { class: "pull-parts" }, pull.parts.map((part) => h("li", null, `${part.amount < 0 ? "−" : "+"}${Math.abs(part.amount).toFixed(2)} ${part.why}`)),
        pull.channel < 1 && h("li", null, `× ${pull.channel.toFixed(2)} the talk slows down after silent turns`))))),
  ];
}

const name = (agent) => coloured(h("b", { class: "agent-name" }, agentName(agent)), agent);
