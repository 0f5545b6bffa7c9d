// What the bots cost: a chart by day with its total and forecasts, today's limits, and sums over a range of days.
import { budgetActions } from "./actions.js";
import { get } from "./api.js";
import { agentChip, agentName, card, channelText, empty, figure, fill, h, meter, numberTable, table } from "./dom.js";
import { cents, clock, dayName, dayOf, dollarsLike, hundredths, percent, several, shortDay, tokens } from "./format.js";
import { me } from "./me.js";
import { stackedBars } from "./plot.js";
import { calledBy, personLink, turnAddress, turnsAddress } from "./turn_words.js";

const RANGES = [7, 30, 90];
const DAY = 86400;
const BY = { usual: "judging by the days before", pace: "judging by today so far" };

export async function render(root, { query, signal }) {
  const range = rangeOf(query);
  const [budgets, costs] = await Promise.all([
    get("api/budgets", {}, { signal }).catch(explained), get("api/costs", range, { signal }).catch(explained),
  ]);
  const oneDay = costs.days?.length === 1 && costs.first;
  const hours = oneDay ? (await get("api/turns/over-time", { from: oneDay, to: oneDay, parts: 24 }, { signal })).items : [];
  const budgetCard = h("div", null, limits(budgets));
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Cost"), rangeForm(range, costs)),
    costs.days ? overview(costs, budgets, range, hours) : empty(costs.error), budgetCard, costs.days && tables(costs, range));
  const acted = async () => fill(budgetCard, limits(await get("api/budgets").catch(explained)));
  window.addEventListener("acted", acted);
  return () => window.removeEventListener("acted", acted);
}

// A part of the page that fails must not take the rest with it.
function explained(error) {
  if (error.name === "AbortError" || error.status === 401) throw error;
  return { error: error.message };
}

// --- the chart, with what it comes to ---

function overview(costs, budgets, range, hours) {
  const { total, days } = costs;
  const some = days.filter((each) => each.cost_usd > 0).length;
  return card(null,
    h("div", { class: "figures" },
      figure(cents(total.cost_usd), days.length === 1 ? dayName(costs.first) : `in ${days.length} days, ${cents(some ? total.cost_usd / some : 0)} a day on days with costs`),
      ...forecasts(budgets)),
    days.length > 1 ? byDay(costs, budgets, range) : byHour(hours),
    h("p", { class: "muted" }, `${several(total.turns, "turn")}, ${tokens(total.output_tokens)} tokens out. Of ${tokens(total.input_tokens)} tokens in, ${percent(total.cached_share)} came from the providers’ caches.`));
}

function byHour(hours) {
  if (!hours.some((each) => each.cost_usd > 0)) return null;
  const bars = hours.map((each) => ({
    label: clock(each.at), title: `From ${clock(each.at)}`, href: turnsAddress({ from: dayOf(each.at), to: dayOf(each.at) }),
    parts: [{ name: "Turns", color: "var(--accent)", value: each.cost_usd }],
    about: [several(each.turns, "turn"), each.failures > 0 && `${each.failures} failed`].filter(Boolean),
  }));
  return stackedBars("Cost by hour", bars, dollarsLike(hours.map((each) => each.cost_usd)));
}

// What today and this month will probably cost, and how that is known.
function forecasts({ all, forecast, month, error }) {
  if (error) return [figure("–", error)];
  const budget = all.cap === null ? "no daily budget" : `${percent(all.cap ? all.spent / all.cap : 0)} of the daily ${cents(all.cap)}`;
  const today = [figure(cents(all.spent), `today, ${budget}`)];
  if (forecast && forecast.usd !== null) {
    const over = all.cap !== null && forecast.usd > all.cap ? "; the budget will be used up before then" : "";
    today.push(figure(`≈ ${cents(forecast.usd)}`, `by midnight, ${BY[forecast.by]}${over}`));
  }
  if (month && month.usd !== null) {
    today.push(figure(`≈ ${cents(month.usd)}`, `in ${monthName(month.last)}: ${cents(month.spent_usd)} so far, then ${cents(month.daily_usd)} a day, the ${month.days}-day average`));
  }
  return today;
}

const monthName = (day) => new Date(`${day}T12:00:00Z`).toLocaleDateString("en", { month: "long", timeZone: "UTC" });

function byDay(costs, budgets, range) {
  if (!(costs.total.cost_usd > 0)) return empty("Nothing was spent in these days.");
  const agents = costs.agents.map(({ agent }) => agent);
  const dollars = dollarsLike(costs.days.map(({ cost_usd }) => cost_usd));
  const today = dayOf(Date.now() / 1000), cap = budgets.all?.cap ?? null, expected = budgets.forecast?.usd ?? null;
  const bars = costs.days.map((each) => {
    const grows = each.day === today && expected !== null ? Math.max(0, expected - each.cost_usd) : 0;
    return {
      label: shortDay(each.day), title: dayName(each.day), href: dayAddress(each.day), ghost: grows,
      parts: agents.map((agent) => ({ name: agentName(agent), color: me.colours[agent] || "#888888", value: each.agents[agent] || 0 })),
      about: [`${several(each.turns, "turn")}, ${percent(each.cached_share)} of its tokens in cached`,
        cap > 0 && `${percent(each.cost_usd / cap)} of today’s budget`, grows > 0 && `about ${dollars(expected)} by midnight`].filter(Boolean),
    };
  });
  const rows = [...costs.days].reverse().map((each) => [
    h("a", { href: dayAddress(each.day) }, dayName(each.day)), dollars(each.cost_usd), ...agents.map((agent) => dollars(each.agents[agent] || 0)), tokens(each.turns), percent(each.cached_share)]);
  return [
    stackedBars("Cost by day", bars, dollars, cap > 0 ? { value: cap, text: `Daily budget ${cents(cap)}` } : null),
    h("ul", { class: "plot-legend" }, agents.map((agent) => h("li", null, agentChip(agent), " ", dollars(costs.agents.find((row) => row.agent === agent).cost_usd)))),
    h("details", null, h("summary", null, "As a table"), h("p", null, csv("days", range)),
      numberTable("By day", ["Day", "Cost", ...agents.map(agentName), "Turns", "Cached"], rows)),
  ];
}

// --- today's limits ---

function limits(budgets) {
  if (budgets.error) return null;
  const { all } = budgets;
  const groups = [["Bots", budgets.agents], ["Channels", budgets.channels], ["People", budgets.people], ["Background tasks", budgets.idle]]
    .map(([title, uses]) => group(title, uses)).filter(Boolean);
  if (all.cap === null && !groups.length) return null;
  return card("Today’s limits", budgetMeter(all), groups);
}

// A limit of which something is used has a meter; the others are a line.
function group(title, uses) {
  const used = (use) => use.spent + use.reserved > 0 || use.raised > 0;
  const limited = uses.filter((use) => use.cap !== null);
  const metered = limited.filter(used), unused = limited.filter((use) => !used(use)), free = uses.filter((use) => use.cap === null && used(use));
  if (!metered.length && !free.length) return null;
  return h("section", { class: "stack" }, h("h3", null, title),
    metered.length > 0 && h("div", { class: "grid budgets" }, metered.map(budgetMeter)),
    free.length > 0 && h("p", { class: "row" }, h("span", { class: "muted" }, "Without a limit of their own:"), free.map((use) => h("span", { class: "chip" }, `${use.name} ${cents(use.spent)}`))),
    unused.length > 0 && h("details", null, h("summary", null, several(unused.length, "unused limit", "unused limits")), h("div", { class: "grid budgets" }, unused.map(budgetMeter))));
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
  return h("div", { class: "row" }, h("nav", { class: "tabs", "aria-label": "Range" }, links),
    h("details", { class: "other-days", open: Boolean(range.from) && range.from !== range.to }, h("summary", null, "Other days"), h("form", { class: "row", onsubmit: submit }, from, "to", to, h("button", null, "Show"))));
}

const dayAddress = (day) => `#/cost?${new URLSearchParams({ from: day, to: day })}`;

// --- sums ---

function tables(costs, range) {
  return [
    costliest(costs.costliest),
    sumTable("By bot", "agents", "Bot", costs.agents, (row) => agentChip(row.agent), range),
    sumTable("By model", "models", "Model", costs.models, (row) => row.model || "unknown", range, "Calls"),
    sumTable("By channel", "channels", "Channel", costs.channels, (row) => h("a", { href: turnsAddress({ channel: row.channel.id }) }, channelText(row.channel)), range),
    sumTable("By person", "people", "Person", costs.people, person, range, "Turns", costs.more_people > 0 && `These ${costs.people.length} people caused the most. The CSV has ${costs.more_people} more.`),
    costs.replays_usd > 0 && h("p", { class: "muted" }, `${hundredths(costs.replays_usd)} of it is for replays, shown by day, bot, and model only.`),
    costs.imported_usd > 0 && h("p", { class: "muted" }, `${cents(costs.imported_usd)} of it is from before the history began (import-costs), shown by day and bot only.`),
  ].filter(Boolean);
}

// Why it cost so much: the turns that stand out.
function costliest(turns) {
  if (!turns.length) return null;
  const rows = turns.map((turn) => [h("a", { href: turnAddress(turn) }, `${shortDay(dayOf(turn.at))}, ${clock(turn.at)}`), agentChip(turn.agent), turn.model, channelText(turn.channel), calledBy(turn), hundredths(turn.cost_usd)]);
  return card("The most expensive turns", table("The most expensive turns", ["Turn", "Bot", "Model", "Channel", "Trigger", "Cost"], rows, "stacks"));
}

const person = (row) => (row.person ? personLink(row.person, row.name) : "nobody (bots among themselves)");

function sumTable(title, name, heading, rows, first, range, counted = "Turns", note = "") {
  if (!rows.length) return null;
  const dollars = dollarsLike(rows.map(({ cost_usd }) => cost_usd));
  const most = Math.max(...rows.map(({ cost_usd }) => cost_usd));
  const cost = ({ cost_usd }) => h("span", { class: "share", style: { "--share": most ? cost_usd / most : 0 } }, dollars(cost_usd));
  const cells = rows.map((row) => [first(row), cost(row), tokens(row.turns), tokens(row.input_tokens), percent(row.cached_share), tokens(row.output_tokens)]);
  return card(null, h("div", { class: "row apart" }, h("h2", null, title), csv(name, range)), numberTable(title, [heading, "Cost", counted, "Tokens in", "Cached", "Tokens out"], cells), note && h("p", { class: "muted" }, note));
}

function csv(table, range) {
  const query = new URLSearchParams(Object.entries({ table, ...range }).filter(([, value]) => value));
  return h("a", { href: `api/costs/csv?${query}`, download: "" }, "CSV");
}
