// The list of turns. The filters stand in the address, so that a view can be linked and gone back to. The newest turns
// are added as the record gets them.
import { get } from "./api.js";
import { agentChip, agentName, at, channelText, chip, coloured, empty, fill, h, olderButton, toast } from "./dom.js";
import { cents, clock, count, dayAndClock, dayName, dayOf, hundredths, seconds, several, shortDay } from "./format.js";
import { join } from "./live_session.js";
import { me } from "./me.js";
import { alsoDid, calledBy, channelChip, outcomeChip, OUTCOMES, personText, turnAddress, TURN_FILTERS, turnsAddress } from "./turn_words.js";

const TYPING_MS = 350;
const LIVE_MS = 1200; // between two looks for new turns
const CHART_MS = 15000; // between two looks at their number
const TIMES = [["1", "Last hour"], ["24", "Last 24 hours"], ["168", "Last 7 days"], ["720", "Last 30 days"]];
const ORDERS = [["", "Newest first"], ["cost", "Most expensive first"], ["time", "Slowest first"]];

export async function render(root, { query, signal }) {
  const filters = Object.fromEntries(TURN_FILTERS.map((name) => [name, query.get(name) || ""]));
  const list = h("div", { class: "stack" }), chart = h("div", { class: "turn-chart" });
  const live = h("span", { class: "chip live-chip", role: "status" });
  let shown = null; // the list on the page: { filters, table, seen }
  let session = null, timer = 0, charted = 0, newest = null;

  const show = async () => {
    const asked = (list.asked = JSON.stringify(filters)), of = { ...filters };
    const page = await get("api/turns", of, { signal });
    if (list.asked === asked) shown = showPage(list, page, of, signal);
    showRunning();
  };
  const showChart = async () => {
    charted = Date.now();
    if (filters.words) return fill(chart); // it counts without looking for words
    const asked = (chart.asked = JSON.stringify(filters));
    const found = await get("api/turns/over-time", filters, { signal });
    if (chart.asked === asked) fill(chart, overTime(found));
  };
  const showBoth = () => Promise.all([show(), showChart()]);
  const failed = (error) => error.name === "AbortError" || toast(error.message, "bad");

  // New turns come on top; where more are new than a page has, the list is shown again.
  const showNew = async () => {
    timer = 0;
    if (!shown || filters.order || signal.aborted) return;
    const mine = shown;
    const page = await get("api/turns", mine.filters, { signal });
    if (mine !== shown) return;
    const fresh = page.items.filter((turn) => !mine.seen.has(keyOf(turn)));
    if (!mine.table || fresh.length === page.items.length && fresh.length) {
      shown = showPage(list, page, mine.filters, signal);
      for (const node of shown.rows?.querySelectorAll(".turn-row") ?? []) node.classList.add("new");
    } else addNew(mine, fresh);
    showRunning();
    if (fresh.length && Date.now() - charted > CHART_MS) await showChart();
  };
  const showRunning = () => {
    const up = session?.up, isLive = up && !filters.order;
    live.classList.toggle("good", Boolean(isLive));
    live.hidden = Boolean(filters.order);
    fill(live, isLive ? "Live" : up === false ? "Connecting…" : "");
    const running = !session || filters.order ? [] : session.situation.thinking.filter(({ agent, channel }) =>
      filters.agent in { "": 1, [agent]: 1 } && filters.channel in { "": 1, [channel]: 1 });
    if (shown?.table) fill(shown.running, running.map((one) => runningRow(one, session.nameOf(one.channel))));
  };
  const changed = () => {
    history.replaceState(history.state, "", turnsAddress(filters));
    showBoth().catch(failed);
  };

  const [choices] = await Promise.all([get("api/turns/choices", {}, { signal }), show()]);
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Turns"), live), form(filters, choices, changed), chart, list);
  showChart().catch(failed);
  let leave = () => {};
  join((kind, detail) => {
    if (kind === "turns" && detail.newest !== newest) {
      newest = detail.newest;
      timer ||= setTimeout(() => showNew().catch(() => {}), LIVE_MS); // the next one tries again
    }
    if (kind === "situation" || kind === "connection") showRunning();
  }).then(([joined, end]) => {
    session = joined;
    leave = end;
    if (signal.aborted) leave();
    else showRunning();
  }, () => {}); // the list is there without the stream
  return () => {
    clearTimeout(timer);
    leave();
  };
}

const keyOf = (turn) => `${turn.agent} ${turn.id}`;

// --- filters ---

function form(filters, choices, changed) {
  const fields = {};
  const isSet = () => TURN_FILTERS.some((name) => filters[name]);
  const show = () => {
    for (const [name, input] of Object.entries(fields)) {
      if (input.value !== filters[name]) input.value = filters[name];
      input.classList.toggle("set", Boolean(filters[name]));
    }
    clear.hidden = !isSet();
  };
  const set = (values) => {
    Object.assign(filters, values);
    show();
    changed();
  };
  const field = (name, label, kind, attributes, ...children) =>
    h("label", { class: "field" }, h("span", { class: kind === "input" && attributes.type === "date" ? "" : "hidden" }, label),
      (fields[name] = h(kind, { name, ...attributes }, ...children)));
  const select = (name, label, options, others = {}) => field(name, label, "select", { onchange: (event) => set({ [name]: event.target.value, ...others }) },
    known(options, filters[name]).map(([value, text]) => h("option", { value, selected: value === filters[name] }, text)));
  const day = (name, label) => field(name, label, "input", { type: "date", value: filters[name], onchange: (event) => setDay(name, event.target.value) });
  const setDay = (name, value) => {
    const [first, last] = name === "from" ? [value, filters.to] : [filters.from, value];
    const both = value && (!first || !last || first > last) ? { from: value, to: value } : { from: first, to: last };
    set({ hours: "", ...(value ? both : { from: "", to: "" }) });
  };
  let timer;
  const typed = ({ target }) => {
    clearTimeout(timer);
    timer = setTimeout(() => set({ words: target.value.trim() }), TYPING_MS);
  };
  const clear = h("button", { type: "button", class: "quiet", onclick: () => {
    set(Object.fromEntries(TURN_FILTERS.map((name) => [name, ""])));
    fields.words.focus();
  } }, "Clear");
  const rare = ["within", "order", "model", "conversation", "from"].some((name) => filters[name]);
  const node = h("form", { class: "filters turn-filters", role: "search", "aria-label": "Filters of the turns", onsubmit: (event) => event.preventDefault() },
    field("words", "Words", "input", { type: "search", value: filters.words, autocomplete: "off", maxlength: 200, placeholder: "Search words…", oninput: typed }),
    select("agent", "Bot", [["", "All bots"], ...Object.entries(me.names)]),
    select("person", "Person who asked", [["", "All people"], ...choices.people.map(personChoice)]),
    select("channel", "Channel or room", [["", "All channels"], ...channels(choices.channels)]),
    select("outcome", "Result", [["", "All results"], ...Object.entries(OUTCOMES).map(([value, [text]]) => [value, text])]),
    select("hours", "Time", [["", "Any time"], ...TIMES], { from: "", to: "" }),
    clear,
    h("details", { open: rare }, h("summary", null, "More"),
      h("div", { class: "filters" },
        select("within", "Search in", [["", "Search in posts"], ["prompts", "Search in prompts and answers"]]),
        select("order", "Order", ORDERS),
        select("model", "Model", [["", "All models"], ...choices.models.map((model) => [model, model])]),
        select("conversation", "Conversation", [["", "All conversations"], ...choices.conversations.map((talk) => [talk.id, `${talk.topic || talk.theme} (${shortDay(dayOf(talk.started_at))})`])]),
        day("from", "First day"), day("to", "Last day"))));
  show();
  return node;
}

const personChoice = ({ person, name, turns }) => [person, `${personText(person, name)}, ${several(turns, "turn")}`];

// The choices and the current value: a link may have a value that the settings no longer have.
const known = (options, value) => (value && !options.some(([each]) => each === value) ? [...options, [value, value]] : options);

function channels(recorded) {
  const ids = new Set(me.channels.map(({ id }) => id));
  const others = recorded.filter(({ id }) => !ids.has(id));
  return [...me.channels, ...others].map((channel) => [channel.id, channelText(channel)]);
}

// --- how many, over time ---

function overTime({ items, until }) {
  const turns = items.reduce((sum, part) => sum + part.turns, 0);
  if (!turns) return null;
  const failures = items.reduce((sum, part) => sum + part.failures, 0);
  const most = Math.max(...items.map((part) => part.turns));
  const bar = (part, n) => {
    const end = items[n + 1]?.at ?? until;
    const words = `${dayAndClock(part.at)} to ${dayAndClock(end)}: ${several(part.turns, "turn")}, ${cents(part.cost_usd)}${part.failures ? `, ${count(part.failures)} failed` : ""}`;
    return h("span", { class: "turn-bar", title: words },
      h("span", { style: { height: `${(100 * (part.turns - part.failures)) / most}%` } }),
      h("span", { class: "failed", style: { height: `${(100 * part.failures) / most}%` } }));
  };
  return [
    h("p", { class: "turn-sums" }, h("b", null, several(turns, "turn")), ", ", h("b", null, cents(items.reduce((sum, part) => sum + part.cost_usd, 0))),
      failures > 0 && [", ", h("b", { class: "problem" }, `${count(failures)} failed`)],
      h("span", { class: "muted" }, ` since ${dayAndClock(items[0].at)}`)),
    h("div", { class: "turn-bars", "aria-hidden": "true" }, items.map(bar)),
  ];
}

// --- the list ---

function showPage(list, page, filters, signal) {
  const state = { filters, seen: new Set(), table: null };
  if (!page.items.length && !page.next) {
    const filtered = TURN_FILTERS.some((name) => filters[name]);
    fill(list, empty(filtered ? "No turns match these filters." : "Nothing is recorded yet. Mention a bot in one of its channels, or start a conversation on the Live page."));
    return state;
  }
  state.running = h("div", { class: "running", role: "rowgroup" });
  state.rows = h("div", { role: "rowgroup" });
  state.table = h("div", { class: filters.order ? "turns dated" : "turns", role: "table", "aria-label": ORDERS.find(([value]) => value === filters.order)?.[1] || "Turns" }, heading(filters), state.running, state.rows);
  fill(list, state.table);
  let before = page.next;
  add(state, page.items);
  if (!page.items.length) list.append(empty("No match among the newest turns. “Older” searches further back."));
  if (before) {
    list.append(olderButton(async () => {
      const next = await get("api/turns", { ...filters, before }, { signal });
      list.querySelector(".empty")?.remove();
      add(state, next.items);
      before = next.next;
      return Boolean(before);
    }));
  }
  return state;
}

function heading(filters) {
  const cell = (text, kind = "") => h("span", { role: "columnheader", class: kind }, text);
  const sorting = (text, order, kind = "") => {
    const isOn = filters.order === order;
    return h("span", { role: "columnheader", class: kind, "aria-sort": isOn ? "descending" : null },
      isOn ? h("b", null, `${text} ↓`) : h("a", { href: turnsAddress({ ...filters, order }), title: ORDERS.find(([value]) => value === order)[1] }, text));
  };
  return h("div", { class: "turn-row turn-head", role: "row" },
    sorting("Time", ""), cell("Bot"), cell("Result"), cell("What"), cell("Channel"), sorting("Took", "time", "number"), sorting("Cost", "cost", "number"));
}

function add(state, items) {
  for (const turn of items) {
    const day = dayOf(turn.at);
    if (!state.filters.order && state.day !== day) state.rows.append(dayRow(state.day = day));
    state.rows.append(row(turn, state.filters));
    state.seen.add(keyOf(turn));
  }
  scale(state);
}

// The oldest first: each goes to the top of its day.
function addNew(state, items) {
  for (const turn of [...items].reverse()) {
    const day = dayOf(turn.at);
    let head = state.rows.querySelector(`[data-day="${day}"]`);
    if (!head) state.rows.prepend(head = dayRow(day));
    const node = row(turn, state.filters);
    node.classList.add("new");
    head.after(node);
    state.seen.add(keyOf(turn));
  }
  if (items.length) scale(state);
}

// Each bar in a cell is as long as its share of the longest one on the page.
function scale(state) {
  for (const kind of ["took", "cost"]) {
    const cells = [...state.rows.querySelectorAll(`.turn-${kind}`)];
    const most = Math.max(...cells.map((cell) => Number(cell.dataset.value)), 0);
    for (const cell of cells) cell.style.setProperty("--share", most ? Number(cell.dataset.value) / most : 0);
  }
}

const dayRow = (day) => h("div", { class: "day-row", role: "row", dataset: { day } }, h("h2", { role: "rowheader" }, dayName(day)));

function row(turn, filters) {
  const cell = (kind, ...children) => h("span", { role: "cell", class: kind }, ...children);
  const bar = (kind, value, text) => h("span", { role: "cell", class: `turn-${kind} number`, dataset: { value } }, text);
  return h("div", { class: "turn-row", role: "row" },
    cell("turn-time", h("a", { href: turnAddress(turn, filters), class: "turn-link" }, filters.order ? `${shortDay(dayOf(turn.at))}, ${clock(turn.at)}` : at(turn.at))),
    cell("turn-agent", agentChip(turn.agent)),
    cell("turn-outcome", outcomeChip(turn)),
    cell("turn-what", whatHappened(turn, filters.within ? "" : filters.words)),
    cell("turn-channel", channelChip(turn.channel)),
    bar("took", turn.seconds, seconds(turn.seconds)),
    bar("cost", turn.cost_usd, hundredths(turn.cost_usd)));
}

// The reason or the beginning of the post, and below it what called the turn.
function whatHappened(turn, words) {
  const text = words ? turn.text : turn.reason_text || turn.text;
  const did = alsoDid(turn);
  return [
    text && h("span", { class: turn.reason_text && !words ? "turn-reason sentence" : "turn-text", dir: "auto" }, marked(text, words)),
    h("span", { class: "turn-called" }, did ? `${calledBy(turn)}; ${did}` : calledBy(turn)),
  ];
}

// A text with each place marked in which the words are, whatever their case.
function marked(text, words) {
  if (!words) return text;
  const parts = [], folded = text.toLowerCase(), sought = words.toLowerCase();
  let done = 0;
  for (let found; (found = folded.indexOf(sought, done)) >= 0; done = found + sought.length) {
    parts.push(text.slice(done, found), h("mark", null, text.slice(found, found + sought.length)));
  }
  return [...parts, text.slice(done)];
}

function runningRow({ agent, channel, since }, place) {
  return coloured(h("div", { class: "running-row", role: "row" }, h("span", { role: "cell" },
    h("span", { class: "pulse", "aria-hidden": "true" }), h("b", { class: "agent-name" }, agentName(agent)), " is thinking in ",
    h("a", { href: `#/live/${encodeURIComponent(channel)}` }, place), ", since ", at(since))), agent);
}
