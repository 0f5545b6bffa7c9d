// Buttons and dialogs for what an owner does: other pages put them where they belong. Each function returns an element.
// What really happened is shown as a toast, and told to the page by the event "acted" on window.
import { get, post } from "./api.js";
import { agentName, ask, at, channelName, empty, fill, h, svg, toast } from "./dom.js";
import { me } from "./me.js";

const PAUSE_SECONDS = 15; // between two looks whether all bots are paused

// For the header of a channel: start, next speaker, end, stop. `channel` is as in /api/me, with `running` and `stopped`.
export function channelActions(channel) {
  const { id, running, stopped } = channel;
  const shown = channelName(id);
  const start = () => startDialog(id);
  const next = () => nextDialog(id, running);
  return group(`Actions in ${shown}`,
    button("Next speaker", next, { disabled: stopped }),
    running ? button("End", () => act("end", { channel: id }), { title: "End the running conversation" })
      : button("Start", start, { disabled: stopped, title: `Start a conversation in ${shown}` }),
    stopped ? button("Resume", () => act("resume", { channel: id }), { class: "primary", title: `Let the bots speak in ${shown} again` })
      : button("Stop", () => stopDialog(id), { class: "danger", title: `Silence the bots in ${shown}` }));
}

// Mute and unmute. `agent` is { key, name, muted_until }.
export function agentActions(agent) {
  const muted = agent.muted_until && agent.muted_until * 1000 > Date.now();
  return group(`Actions for ${agent.name}`,
    muted ? button("Unmute", () => act("unmute", { agent: agent.key }), { class: "primary", title: `Let ${agent.name} speak again` })
      : button("Mute", () => muteDialog(agent), { title: `Silence ${agent.name} in every channel` }));
}

// What silences bots everywhere and in each server, each with a button that undoes it. `orders` are as in /api/orders.
export function orderList(orders) {
  return h("ul", { class: "slots" }, orders.map((order) => {
    const text = orderText(order);
    return h("li", { class: "row apart" }, h("span", null, text, LONG.has(order.kind) ? "" : [", until ", at(order.until)]),
      button("Undo", () => act("end_order", { order: order.order }), { "aria-label": `Undo: ${text}` }));
  }));
}

const LONG = new Set(["all", "person"]); // until somebody undoes it

function orderText({ kind, name, subject, server }) {
  const where = server ? `in ${server}` : "everywhere";
  const shown = name || subject;
  return { all: `All bots are paused ${where}`, agent: `${shown} is muted ${where}`, channel: `The bots are stopped in #${shown}`,
    person: `The bots ignore ${name || `the person ${subject}`} ${where}` }[kind];
}

// Raise today's budget. `scope` is { kind: "all" | "agent" | "channel", id, name }; `id` is an agent's key or a channel.
export function budgetActions(scope) {
  const whose = { all: "all bots", agent: scope.name, channel: scope.name }[scope.kind];
  return group(`Budget of ${whose}`,
    button("Raise today", () => raiseDialog(scope, whose), { title: `Raise today's limit of ${whose}` }));
}

// Move, skip and add times of today. `slots` are { at, done }, as the schedule has them.
export function scheduleActions(slots) {
  const open = slots.filter((slot) => !slot.done).sort((a, b) => a.at - b.at);
  const rows = open.map((slot) => h("li", { class: "row apart" }, at(slot.at), h("span", { class: "row" },
    button("Move", () => timeDialog("Move the conversation", "move", { at: slot.at }, "Move")),
    button("Skip", () => act("skip", { at: slot.at })))));
  return group("Today's scheduled times",
    rows.length ? h("ul", { class: "slots" }, rows) : empty("No further conversation is scheduled today."),
    button("Add a time", () => timeDialog("Add a conversation today", "add", {}, "Add")));
}

// Pause all bots, for the header of every page. While they are paused a bar below the header says so and has a button to resume them.
export function pauseAll() {
  const root = group("All bots");
  const bar = h("p", { class: "pause-bar", role: "status" });
  document.querySelector(".pause-bar")?.remove();
  document.querySelector(".top").after(bar);
  const icon = svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: "M8 5v14M16 5v14" }));
  const title = "Silence all bots, in every channel";
  const show = () => {
    document.body.classList.toggle("paused", me.paused);
    fill(bar, me.paused && ["All bots are paused.", button("Resume all bots", () => act("resume_all", {}), { class: "primary" })]);
    fill(root, !me.paused && button([icon, h("span", null, "Pause all")], pauseDialog, { class: "danger pause-all", title, "aria-label": "Pause all" }));
  };
  const look = async () => {
    if (!root.isConnected) return clearInterval(timer);
    if (document.body.classList.contains("signed-out")) return;
    try {
      const { paused } = await get("api/pause");
      if (paused !== me.paused) { me.paused = paused; show(); }
    } catch { /* the pages say that the console does not answer */ }
  };
  const timer = setInterval(look, PAUSE_SECONDS * 1000);
  window.addEventListener("acted", look);
  show();
  return root;
}

// --- dialogs ---

async function startDialog(channel) {
  const values = await ask(`Start a conversation in ${channelName(channel)}`, [
    field("Topic", h("input", { name: "topic", maxlength: 200, placeholder: "The first speaker chooses", autocomplete: "off" })),
    field("Who begins", agents("Whose turn it is")),
    field("Theme", select("theme", [["", "The channel's own"], ...(me.themes || []).map((name) => [name, name])])),
  ], "Start");
  if (values) await act("start", { channel, ...given(values, "topic", "agent", "theme") });
}

async function nextDialog(channel, running) {
  const values = await ask("Who speaks next?", [
    field("Bot", agents()),
    h("p", { class: "muted" }, running
      ? "This bot speaks right after the current turn, even if it has already spoken in this round."
      : "No conversation is running here, so this bot takes one turn."),
  ], "Let it speak");
  if (values) await act("next", { channel, agent: values.agent });
}

async function stopDialog(channel) {
  const values = await ask(`Silence the bots in ${channelName(channel)}?`, [
    h("p", null, "The running conversation ends, and nothing more is posted there."),
    field("For", select("minutes", [["30", "30 minutes"], ["120", "2 hours"], ["1440", "a day"]])),
  ], "Stop");
  if (values) await act("stop", { channel, minutes: Number(values.minutes) });
}

async function pauseDialog() {
  const sure = await ask("Pause all bots?", [
    h("p", null, "Running conversations end. Until you resume all bots, they answer nobody in any channel or direct message, and nothing scheduled runs. A restart doesn't end the pause."),
  ], "Pause all");
  if (sure) await act("pause", {});
}

async function muteDialog(agent) {
  const values = await ask(`Mute ${agent.name}?`, [
    h("p", null, "It stays silent in every channel, but may finish the message it's writing."),
    field("For", select("minutes", [["60", "an hour"], ["480", "8 hours"], ["1440", "a day"], ["10080", "a week"]])),
  ], "Mute");
  if (values) await act("mute", { agent: agent.key, minutes: Number(values.minutes) });
}

async function raiseDialog(scope, whose) {
  const sum = h("input", { name: "dollars", type: "number", min: "0.01", max: "25", step: "0.01", value: "1", required: true, inputmode: "decimal" });
  const values = await ask(`Raise today's limit of ${whose}`, [
    field("US dollars more", sum),
    h("p", { class: "muted" }, "This amount is added to the limit, for today only. You can add up to $25 at a time."),
  ], "Raise the limit");
  if (!values) return;
  const where = scope.kind === "all" ? "all" : `${scope.kind}:${scope.id}`;
  await act("raise_budget", { scope: where, dollars: Number(values.dollars) });
}

async function timeDialog(title, name, slot, yes) {
  const time = h("input", { name: "time", type: "time", required: true });
  const values = await ask(title, [
    field(`Time (${me.timezone})`, time),
    h("p", { class: "muted" }, "A time later today."),
  ], yes);
  if (values) await act(name, { ...slot, time: values.time });
}

// --- parts ---

export function field(label, control) {
  control.id ||= `field-${control.name}`;
  return h("p", { class: "field" }, h("label", { for: control.id }, label), control);
}

export function select(name, choices) {
  return h("select", { name }, choices.map(([value, text]) => h("option", { value }, text)));
}

// Without a first choice, one of the agents has to be chosen.
function agents(first) {
  const choices = Object.keys(me.names).map((key) => [key, agentName(key)]);
  return select("agent", first ? [["", first], ...choices] : choices);
}

const given = (values, ...names) => Object.fromEntries(names.filter((name) => values[name]).map((name) => [name, values[name]]));

export function group(name, ...children) {
  return h("div", { class: "row actions", role: "group", "aria-label": name }, ...children);
}

// A button that is busy while its action runs, and that has the focus again after it.
export function button(text, run, attributes = {}) {
  const node = h("button", { type: "button", ...attributes }, text);
  node.addEventListener("click", async () => {
    if (node.getAttribute("aria-busy")) return;
    node.setAttribute("aria-busy", "true");
    try {
      await run();
    } finally {
      node.removeAttribute("aria-busy");
      if (node.isConnected && document.activeElement === document.body) node.focus();
    }
  });
  return node;
}

// One click is one action, however often it arrives: it has an id of its own, and is sent once more if no answer came.
export async function act(name, fields) {
  const body = { id: crypto.randomUUID?.() || randomId(), ...fields };
  try {
    const { text, outcome } = await post(`api/actions/${name}`, body).catch((error) => {
      if (error.status !== 0) throw error;
      return post(`api/actions/${name}`, body);
    });
    toast(text, "good");
    window.dispatchEvent(new CustomEvent("acted", { detail: { name, outcome, ...fields } }));
  } catch (error) {
    toast(error.message, "bad");
  }
}

// Over plain HTTP from another machine a browser has no randomUUID.
function randomId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
