// The season: how agents and models did in votes, and in rooms with a judge or polls. Each share is a bar with
// its count and the range in which the true one probably is.
import { button } from "./actions.js";
import { get } from "./api.js";
import { agentChip, agentName, avatar, card, chip, coloured, fill, h, when } from "./dom.js";
import { percent, several } from "./format.js";
import { me } from "./me.js";
import { arenaDialog } from "./play.js";
import { placeLink } from "./turn_words.js";

const KINDS = [["", "All votes"], ["arena", "Arena"], ["room", "Rooms"]];
const EMPTY = "In an arena, two hidden bots answer the same question and people vote for the better answer. In a room, people vote by reacting with 👍.";
const PLACES = ["First", "Second", "Third"];
const LATEST = 10; // contests that an agent's page shows

export async function render(root, { query, signal }) {
  const kind = KINDS.some(([key]) => key === query.get("kind")) ? query.get("kind") : "";
  const { items } = await get("api/arena", { kind }, { signal }).catch((error) => {
    if (error.status === 404) return { items: [] }; // a record that has nothing yet
    throw error;
  });
  const tabs = KINDS.map(([key, text]) => h("a", { href: key ? `#/arena?kind=${key}` : "#/arena", "aria-current": key === kind && "page" }, text));
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Season"), h("div", { class: "row" }, h("a", { class: "button", href: "#/rooms" }, "Rooms"))),
    h("nav", { class: "tabs", "aria-label": "Which votes" }, tabs),
    items.length ? [items.length > 2 && podium(items.slice(0, 3)), card(null, standingsTable(items), legend())] : h("section", { class: "card calm-card" }, h("h2", null, "Nobody has voted yet"), h("p", { class: "muted" }, EMPTY),
      me.channels.length > 0 && h("p", { class: "row centre" }, button("Start an arena", () => arenaDialog(me.channels[0].id), { class: "primary" }), h("a", { class: "button", href: "#/rooms" }, "Open a room"))));
}

function podium(best) {
  return h("ol", { class: "podium" }, best.map((each, n) => coloured(h("li", { class: "card" },
    h("small", null, PLACES[n]), avatar(each.agent),
    h("div", { class: "stack" }, agentChip(each.agent), h("small", null, modelName(each.model))),
    h("b", null, percent(each.wins.value)), h("small", null, `won alone, ${each.wins.count} of ${each.wins.of}`)), each.agent)));
}

const modelName = (model) => model.split("/").at(-1) || "unknown model";

// --- the table ---

// `items` are standings; the columns of verdicts and of changed minds are there if anybody has any.
function standingsTable(items) {
  const columns = [
    ["Won alone", (each) => bar(each.wins)],
    ["Votes", (each) => bar(each.votes, each.fair_share)],
    items.some((each) => each.verdicts?.of) && ["Best for the judge", (each) => [bar(each.verdicts), each.score !== null && h("small", null, `${each.score.toFixed(1)} of 10 points on average`)]],
    items.some((each) => each.moves?.of) && ["Changed most minds", (each) => [bar(each.moves), each.moves.of > 0 && h("small", null, `${each.moved > 0 ? "+" : ""}${several(each.moved, "person", "people")} came over`)]],
    ["Tied", (each) => String(each.ties)],
    ["Contests", (each) => String(each.contests)],
  ].filter(Boolean);
  const cell = (label, ...children) => h("td", { role: "cell", "data-label": label }, ...children);
  const head = h("tr", { role: "row" }, ["Bot and model", ...columns.map(([name]) => name)].map((name) => h("th", { scope: "col", role: "columnheader" }, name)));
  const rows = items.map((each, n) => h("tr", { role: "row" },
    h("th", { scope: "row", role: "rowheader" }, h("div", { class: "contender" },
      items.length > 1 && h("span", { class: "rank" }, n + 1), avatar(each.agent), h("div", null, agentChip(each.agent), h("small", null, modelName(each.model))))),
    columns.map(([name, make]) => cell(name, make(each)))));
  return h("table", { class: "season", role: "table" }, h("caption", { class: "hidden" }, "Season"),
    h("thead", { role: "rowgroup" }, head), h("tbody", { role: "rowgroup" }, rows));
}

// The share as a bar, on it the range in which the true share probably is, and a mark for the share by chance.
function bar(share, chance = null) {
  if (!share?.of) return h("span", { class: "muted" }, "–");
  const range = `${Math.round(share.low * 100)}–${Math.round(share.high * 100)}%`;
  return h("div", { class: "season-share", title: `probably ${range}${chance === null ? "" : `; by chance ${percent(chance)}`}` },
    h("span", null, h("b", null, percent(share.value)), " ", h("small", null, `${share.count} of ${share.of}`), h("span", { class: "hidden" }, `, probably ${range}`)),
    h("span", { class: "season-bar", "aria-hidden": "true" },
      h("span", { class: "value", style: { width: percent(share.value) } }),
      h("span", { class: "range", style: { left: percent(share.low), right: percent(1 - share.high) } }),
      chance !== null && h("span", { class: "chance", style: { left: percent(chance) } })));
}

const legend = () => h("p", { class: "muted" },
  "The thin line on each bar is the range of the true share, with 95% certainty. If two ranges overlap, their order may be luck. The list is sorted by the lower end. The mark in “Votes” is the share you’d expect if people voted at random.");

// --- an agent's part ---

// For the page of an agent: its standings, its record against each other agent, and its latest contests.
export async function seasonCard(agent, signal) {
  const found = await get(`api/arena/${encodeURIComponent(agent)}`, {}, { signal }).catch((error) => {
    if (error.status === 404) return { standings: [], contests: [] };
    throw error;
  });
  const voted = found.contests.filter((contest) => contest.contenders.some(({ votes }) => votes > 0));
  if (!found.standings.length) return null;
  return card(null, h("div", { class: "row apart" }, h("h2", null, "Season"), h("a", { href: "#/arena" }, "All bots")),
    standingsTable(found.standings), against(agent, voted),
    h("h3", null, "Its latest contests"),
    h("ul", { class: "slots contests" }, found.contests.slice(0, LATEST).map((contest) => contestRow(agent, contest))));
}

function against(agent, contests) {
  const rivals = new Map();
  for (const { contenders } of contests) {
    const mine = contenders.find((each) => each.agent === agent);
    for (const other of contenders.filter((each) => each.agent !== agent)) {
      const record = rivals.get(other.agent) || { won: 0, tied: 0, lost: 0 };
      record[mine.votes > other.votes ? "won" : mine.votes < other.votes ? "lost" : "tied"]++;
      rivals.set(other.agent, record);
    }
  }
  if (!rivals.size) return null;
  const rows = [...rivals].sort(([, one], [, other]) => other.won - other.lost - (one.won - one.lost));
  return [h("h3", null, "Against each other bot"), h("ul", { class: "slots rivals" }, rows.map(([name, { won, tied, lost }]) => {
    const part = (kind, number, text) => number > 0 && h("span", { class: kind, style: { "flex-grow": number } }, `${number} ${text}`);
    return h("li", null, agentChip(name), h("span", { class: "rival-bar" }, part("won", won, "won"), part("tied", tied, "tied"), part("lost", lost, "lost")));
  }))];
}

function contestRow(agent, contest) {
  const votes = contest.contenders.reduce((sum, each) => sum + each.votes, 0);
  const mine = contest.contenders.find((each) => each.agent === agent), most = Math.max(...contest.contenders.map((each) => each.votes));
  const first = contest.contenders.filter((each) => each.votes === most);
  const result = !votes ? chip("no votes") : mine.votes < most ? chip("lost", "bad") : first.length > 1 ? chip("tied", "warn") : chip("won", "good");
  return h("li", null, result,
    h("div", null, h("span", { dir: "auto" }, contest.question), h("small", null, contest.contenders.map((each) => `${agentName(each.agent)} ${each.votes}`).join(" : "), ", in ", placeLink(contest.channel), ", ", when(contest.at))));
}
