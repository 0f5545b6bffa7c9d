// The season: how agents and models did where people voted. Every share has its count and its interval.
import { get } from "./api.js";
import { agentChip, empty, fill, h, numberTable } from "./dom.js";
import { percent } from "./format.js";

const KINDS = [["", "All votes"], ["arena", "Arena"], ["room", "Rooms"]];
const EMPTY = "Nobody has voted yet. In Discord, /arena asks two hidden bots the same question and people vote. In rooms, people vote by reacting with 👍.";

export async function render(root, { query, signal }) {
  const kind = KINDS.some(([key]) => key === query.get("kind")) ? query.get("kind") : "";
  const { items } = await get("api/arena", { kind }, { signal }).catch((error) => {
    if (error.status === 404) return { items: [] }; // a record that has nothing yet
    throw error;
  });
  const tabs = KINDS.map(([key, text]) => h("a", { href: key ? `#/arena?kind=${key}` : "#/arena", "aria-current": key === kind && "page" }, text));
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Season"), h("div", { class: "row" }, h("a", { class: "button", href: "#/rooms" }, "Rooms"))),
    h("nav", { class: "tabs", "aria-label": "Which votes" }, tabs),
    items.length ? standings(items) : empty(EMPTY));
}

function standings(items) {
  const rows = items.map((each) => [
    h("span", { class: "row contender" }, agentChip(each.agent), h("span", { class: "muted" }, each.model || "unknown model")),
    share(each.wins), share(each.votes), percent(each.fair_share), String(each.ties), String(each.contests),
  ]);
  return [
    numberTable("Season", ["Agent and model", "Won alone", "Votes", "By chance", "Tied", "Contests"], rows),
    h("p", { class: "muted" }, "The true share is in the range in parentheses with 95% certainty. If two ranges overlap, their order may be luck. The list is sorted by the lower end. “By chance” is the share you'd expect if people voted at random."),
  ];
}

// "3 of 5, 60% (23–88)"
const share = ({ count, of, value, low, high }) =>
  of ? `${count} of ${of}, ${percent(value)} (${Math.round(low * 100)}–${Math.round(high * 100)})` : "–";
