// What the bots cost: today's budgets, and sums over a range of days, each plot with its numbers as a table.
import { budgetActions } from "./actions.js";
import { get } from "./api.js";
import { agentChip, agentName, card, channelText, empty, figure, fill, h, meter, numberTable, table } from "./dom.js";
import { cents, clock, dayName, dayOf, dollarsLike, hundredths, percent, shortDay, tokens } from "./format.js";
import { me } from "./me.js";
import { stackedBars } from "./plot.js";
import { calledBy, personLink, turnAddress, turnsAddress } from "./turn_words.js";

const RANGES = [7, 30, 90];
const DAY = 86400;
const BY = { usual: "based on the days before", pace: "based on today so far" };

export async function render(root, { query, signal }) {
  const range = rangeOf(query);
  const [budgets, costs] = await Promise.all([
    get("api/budgets", {}, { signal }).catch(explained), get("api/costs", range, { signal }).catch(explained),
  ]);
  const budgetCard = h("div", null, today(budgets));
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Cost")), budgetCard, rangeForm(range, costs));
  if (costs.days) root.append(...sums(costs, range));
  else root.append(empty(costs.error));
  const acted = async () => fill(budgetCard, today(await get("api/budgets").catch(explained)));
  window.addEventListener("acted", acted);
  return () => window.removeEventListener("acted", acted);
}

// A part of the page that fails must not take the rest with it.
function explained(error) {
  if (error.name === "AbortError" || error.status === 401) throw error;
  return { error: error.message };
}

// --- today ---

function today(budgets) {
  if (budgets.error) return card("Today", h("p", { class: "muted" }, budgets.error));
  const { forecast } = budgets;
  return card("Today",
    budgetMeter(budgets.all, "all"),
    forecast && forecast.usd !== null && h("p", null, "By midnight: about ", h("b", null, cents(forecast.usd)), h("span", { class: "muted" }, ` (${BY[forecast.by]}${overrun(budgets.all, forecast)})`)),
    group("Agents", budgets.agents), group("Channels", budgets.channels), group("People", budgets.people), group("Idle work", budgets.idle));
}

function overrun({ cap }, { usd }) {
  if (cap === null) return "";
  return usd > cap ? `; the budget of ${cents(cap)} will be used up before then` : `; the budget is ${cents(cap)}`;
}

function group(title, uses) {
  if (!uses.length) return null;
  return h("details", { open: title === "Agents" }, h("summary", null, title), h("div", { class: "grid budgets" }, uses.map((use) => budgetMeter(use))));
}

function budgetMeter(use) {
  const spent = use.reserved > 0 ? `${cents(use.spent)} + ${cents(use.reserved)} reserved` : cents(use.spent);
  const raised = use.raised > 0 ? `, raised by ${cents(use.raised)}` : "";
  const words = use.cap === null ? `${spent}, no limit` : `${spent} of ${cents(use.cap)}${raised}`;
  return h("div", { class: "budget", title: use.kind === "person" && `person ${use.id}` }, meter(use.name, use.spent + use.reserved, use.cap ?? 0, words), use.cap !== null && !["person", "idle"].includes(use.kind) && budgetActions(use));
}

// --- the range ---

function rangeOf(query) {
  const from = query.get("from"), to = query.get("to");
  return from ? { from, to } : { days: query.get("days") || "30" };
}

function rangeForm(range, costs) {
  const now = Date.now() / 1000;
  const one = [["Today", dayOf(now)], ["Yesterday", dayOf(now - DAY)]].map(([name, day]) =>
    h("a", { href: dayAddress(day), "aria-current": range.from === day && range.to === day && "true" }, name));
  const links = [...one, ...RANGES.map((days) => h("a", { href: `#/cost?days=${days}`, "aria-current": range.days === String(days) && "true" }, `${days} days`))];
  const day = (name, value) => h("input", { type: "date", name, value: value || "", required: true, "aria-label": name === "from" ? "First day" : "Last day" });
  const from = day("from", costs.first || range.from), to = day("to", costs.last || range.to);
  const submit = (event) => {
    event.preventDefault();
    location.hash = `#/cost?${new URLSearchParams({ from: from.value, to: to.value })}`;
  };
  return h("div", { class: "row apart" }, h("nav", { class: "tabs", "aria-label": "Range" }, links), h("form", { class: "row", onsubmit: submit }, from, "to", to, h("button", null, "Show")));
}

const dayAddress = (day) => `#/cost?${new URLSearchParams({ from: day, to: day })}`;

// --- sums ---

function sums(costs, range) {
  const { total } = costs;
  const days = costs.days.filter((each) => each.cost_usd > 0).length;
  return [
    card(null, h("div", { class: "figures" },
      figure(cents(total.cost_usd), costs.days.length === 1 ? dayName(costs.first) : `in ${costs.days.length} days`),
      costs.days.length > 1 && figure(cents(days ? total.cost_usd / days : 0), "a day with costs"),
      figure(tokens(total.turns), "turns"), figure(tokens(total.input_tokens), "tokens in"),
      figure(percent(total.cached_share), "of them cached"), figure(tokens(total.output_tokens), "tokens out"))),
    costs.days.length > 1 && byDay(costs, range),
    sumTable("By agent", "agents", "Agent", costs.agents, (row) => agentChip(row.agent), range),
    sumTable("By model", "models", "Model", costs.models, (row) => row.model || "unknown", range, "Calls"),
    costliest(costs.costliest),
    sumTable("By channel", "channels", "Channel", costs.channels, (row) => h("a", { href: turnsAddress({ channel: row.channel.id }) }, channelText(row.channel)), range),
    sumTable("By person", "people", "Person", costs.people, person, range, "Turns", costs.more_people > 0 && `The ${costs.people.length} who caused the most; the CSV has ${costs.more_people} more.`),
    costs.replays_usd > 0 && h("p", { class: "muted" }, `${hundredths(costs.replays_usd)} of it is for replays, shown by day, bot, and model only.`),
    costs.imported_usd > 0 && h("p", { class: "muted" }, `${cents(costs.imported_usd)} of it is from before the history began (import-costs), shown by day and bot only.`),
  ].filter(Boolean);
}

// Why it cost so much: the turns that stand out.
function costliest(turns) {
  if (!turns.length) return null;
  const rows = turns.map((turn) => [h("a", { href: turnAddress(turn) }, `${shortDay(dayOf(turn.at))}, ${clock(turn.at)}`), agentChip(turn.agent), turn.model, channelText(turn.channel), calledBy(turn), hundredths(turn.cost_usd)]);
  return card("The most expensive turns", table("The most expensive turns", ["Turn", "Agent", "Model", "Channel", "Why", "Cost"], rows));
}

const person = (row) => (row.person ? personLink(row.person, row.name) : "nobody: the bots among themselves");

function byDay(costs, range) {
  const agents = costs.agents.map(({ agent }) => agent);
  const labels = costs.days.map(({ day }) => shortDay(day));
  const series = agents.map((agent) => ({ name: agentName(agent), colour: me.colours[agent] || "#888888", values: costs.days.map((each) => each.agents[agent] || 0) }));
  const dollars = dollarsLike(costs.days.map(({ cost_usd }) => cost_usd));
  const rows = [...costs.days].reverse().map((each) => [
    h("a", { href: dayAddress(each.day) }, dayName(each.day)), dollars(each.cost_usd), ...agents.map((agent) => dollars(each.agents[agent] || 0)), tokens(each.turns), percent(each.cached_share)]);
  const headings = ["Day", "Cost", ...agents.map(agentName), "Turns", "Cached"];
  return card(null, titled("By day", "days", range), costs.total.cost_usd > 0 ? stackedBars(labels, series) : empty("Nothing was spent in these days."),
    h("details", null, h("summary", null, "The same as a table"), numberTable("By day", headings, rows)));
}

function sumTable(title, name, heading, rows, first, range, counted = "Turns", note = "") {
  if (!rows.length) return null;
  const dollars = dollarsLike(rows.map(({ cost_usd }) => cost_usd));
  const cells = rows.map((row) => [first(row), dollars(row.cost_usd), tokens(row.turns), tokens(row.input_tokens), percent(row.cached_share), tokens(row.output_tokens)]);
  return card(null, titled(title, name, range), numberTable(title, [heading, "Cost", counted, "Tokens in", "Cached", "Tokens out"], cells), note && h("p", { class: "muted" }, note));
}

function titled(title, table, range) {
  const query = new URLSearchParams(Object.entries({ table, ...range }).filter(([, value]) => value));
  return h("div", { class: "row apart" }, h("h2", null, title), h("a", { href: `api/costs/csv?${query}`, download: "" }, "CSV"));
}
