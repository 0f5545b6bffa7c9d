// The list of turns, newest first. The filters stand in the address, so that a view can be linked and gone back to.
import { get } from "./api.js";
import { agentChip, at, channelText, chip, empty, fill, h, olderButton, toast } from "./dom.js";
import { dayName, dayOf, hundredths, seconds } from "./format.js";
import { me } from "./me.js";
import { alsoDid, calledBy, outcomeChip, OUTCOMES, turnAddress } from "./turn_words.js";

const FIELDS = ["agent", "channel", "outcome", "words", "model", "person", "conversation"];
const TYPING_MS = 350;

export async function render(root, { query, signal }) {
  const filters = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) || ""]));
  const list = h("div", { class: "stack" });
  const show = async () => {
    const asked = (list.asked = JSON.stringify(filters));
    const page = await get("api/turns", filters, { signal });
    if (list.asked === asked) showPage(list, page, { ...filters }, signal);
  };
  const choices = await Promise.all([get("api/turns/choices", {}, { signal }), show()]).then(([first]) => first);
  const changed = () => {
    const set = new URLSearchParams(Object.entries(filters).filter(([, value]) => value)).toString();
    history.replaceState(null, "", set ? `#/turns?${set}` : "#/turns");
    show().catch((error) => error.name === "AbortError" || toast(error.message, "bad"));
  };
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Turns")), form(filters, choices, changed), list);
}

// --- filters ---

function form(filters, choices, changed) {
  const fields = {};
  const set = (name, value) => {
    filters[name] = value.trim();
    clear.hidden = !Object.values(filters).some(Boolean);
    changed();
  };
  const field = (name, label, input) => {
    fields[name] = input;
    return h("label", { class: "field" }, h("span", null, label), input);
  };
  const select = (name, label, options) => field(name, label, h("select", { name, onchange: (event) => set(name, event.target.value) },
    h("option", { value: "" }, "All"),
    known(options, filters[name]).map(([value, text]) => h("option", { value, selected: value === filters[name] }, text))));
  const input = (name, label, attributes) => {
    let timer;
    const typed = (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => set(name, event.target.value), TYPING_MS);
    };
    return field(name, label, h("input", { name, value: filters[name], autocomplete: "off", maxlength: 200, oninput: typed, ...attributes }));
  };
  const clear = h("button", { type: "button", class: "quiet", hidden: !Object.values(filters).some(Boolean), onclick: () => {
    for (const name of FIELDS) {
      filters[name] = "";
      fields[name].value = "";
    }
    clear.hidden = true;
    changed();
  } }, "Clear");
  const rare = ["model", "person", "conversation"].some((name) => filters[name]);
  return h("form", { class: "filters", role: "search", "aria-label": "Filters of the turns", onsubmit: (event) => event.preventDefault() },
    select("agent", "Agent", Object.entries(me.names)),
    select("channel", "Channel", channels(choices.channels)),
    select("outcome", "Outcome", Object.entries(OUTCOMES).map(([value, [text]]) => [value, text])),
    input("words", "Words in posts", { type: "search" }),
    h("details", { open: rare }, h("summary", null, "More"),
      h("div", { class: "filters" },
        select("model", "Model", choices.models.map((model) => [model, model])),
        input("person", "Person’s id", { inputmode: "numeric" }),
        input("conversation", "Conversation’s id"))),
    clear);
}

// The choices, with the one that is set: a link may name what the settings no longer have.
const known = (options, value) => (value && !options.some(([each]) => each === value) ? [...options, [value, value]] : options);

function channels(recorded) {
  const ids = new Set(me.channels.map(({ id }) => id));
  const others = recorded.filter(({ id }) => !ids.has(id));
  return [...me.channels.map((channel) => [channel.id, channelText(channel)]), ...others.map((channel) => [channel.id, channelText(channel)])];
}

// --- the list ---

function showPage(list, page, filters, signal) {
  const filtered = Object.values(filters).some(Boolean);
  if (!page.items.length && !page.next) {
    fill(list, empty(filtered ? "No turns match these filters." : "Nothing is recorded yet. Mention a bot in one of its channels, or start a conversation on the Live page."));
    return;
  }
  const table = h("div", { class: "turns", role: "table", "aria-label": "Turns, newest first" }, heading());
  fill(list, table);
  let before = page.next;
  add(table, page.items);
  if (!page.items.length) list.append(empty("No match among the newest turns. “Older” searches further back."));
  if (!before) return;
  list.append(olderButton(async () => {
    const next = await get("api/turns", { ...filters, before }, { signal });
    list.querySelector(".empty")?.remove();
    add(table, next.items);
    before = next.next;
    return Boolean(before);
  }));
}

function heading() {
  const cell = (text, kind = "") => h("span", { role: "columnheader", class: kind }, text);
  return h("div", { class: "turn-row turn-head", role: "row" },
    cell("Time"), cell("Agent"), cell("Outcome"), cell("What"), cell("Channel"), cell("Took", "number"), cell("Cost", "number"));
}

function add(table, items) {
  for (const turn of items) {
    const day = dayOf(turn.at);
    if (table.dataset.day !== day) {
      table.dataset.day = day;
      table.append(h("div", { class: "day-row", role: "row" }, h("h2", { role: "rowheader" }, dayName(day))));
    }
    table.append(row(turn));
  }
}

function row(turn) {
  const cell = (kind, ...children) => h("span", { role: "cell", class: kind }, ...children);
  return h("div", { class: "turn-row", role: "row" },
    cell("turn-time", h("a", { href: turnAddress(turn), class: "turn-link" }, at(turn.at))),
    cell("turn-agent", agentChip(turn.agent)),
    cell("turn-outcome", outcomeChip(turn)),
    cell("turn-what", whatHappened(turn)),
    cell("turn-channel", chip(channelText(turn.channel))),
    cell("turn-took number", seconds(turn.seconds)),
    cell("turn-cost number", hundredths(turn.cost_usd)));
}

// The reason or the beginning of the post, and below it what called the turn.
function whatHappened(turn) {
  const text = turn.reason_text || turn.text;
  const did = alsoDid(turn);
  return [
    text && h("span", { class: turn.reason_text ? "turn-reason" : "turn-text" }, text),
    h("span", { class: "turn-called" }, did ? `${calledBy(turn)}; ${did}` : calledBy(turn)),
  ];
}
