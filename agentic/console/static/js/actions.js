// Buttons and dialogs for the owner's actions, which other pages include. Each function returns an element.
// What really happened is shown as a toast, and told to the page by the event "acted" on window.
import { post } from "./api.js";
import { agentName, ask, channelName, h, toast } from "./dom.js";
import { clock, soon } from "./format.js";
import { me } from "./me.js";

// For the header of a channel: start, next speaker, end, stop. `channel` is as in /api/me, with `running`, `muted` (agent →
// until when), and `stop`, if the bots are stopped there: { channel, until }.
export function channelActions(channel) {
  const { id, running, stop, muted } = channel;
  const shown = channelName(id), silent = Boolean(stop) || me.paused;
  const why = silent && "The bots are stopped or paused here";
  return group(`Actions in ${shown}`,
    button("Next speaker", () => nextDialog(id, running, muted), { disabled: silent, title: why }),
    running ? button("End", () => act("end", { channel: id }), { title: "End the running conversation" })
      : button("Start", () => startDialog(id, muted), { disabled: silent, title: why || `Start a conversation in ${shown}` }),
    stop ? resumeButton(stop.channel) : button("Stop", () => stopDialog(id), { class: "danger", title: `Stop the bots in ${shown}` }));
}

export function resumeButton(channel) {
  return button("Resume", () => act("resume", { channel }), { class: "primary", title: `Resume the bots in ${channelName(channel)}` });
}

// Mute and unmute. `agent` is { key, name, muted_until }.
export function agentActions(agent) {
  const muted = agent.muted_until && agent.muted_until * 1000 > Date.now();
  return group(`Actions for ${agent.name}`,
    muted ? button("Unmute", () => act("unmute", { agent: agent.key }), { class: "primary", title: `Unmute ${agent.name}` })
      : button("Mute", () => muteDialog(agent), { title: `Mute ${agent.name} in every channel` }));
}

// What silences bots everywhere and in each server, each with a button that undoes it. `orders` are as in /api/orders.
export function orderList(orders) {
  return h("ul", { class: "slots" }, orders.map((order) => {
    const text = orderText(order);
    return h("li", { class: "row apart" }, h("span", null, text, LONG.has(order.kind) ? "" : [", until ", soon(order.until)]),
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

// Move and skip a time of today that is still to come: { at } as the schedule has it.
export function slotActions({ at: time }) {
  return group(`The conversation at ${clock(time)}`,
    button("Move", () => timeDialog("Move the conversation", "move", { at: time }, "Move")),
    button("Skip", () => act("skip", { at: time })));
}

export const addTimeButton = () => button("Add a time", () => timeDialog("Add a conversation today", "add", {}, "Add"));

// --- dialogs ---

export function startDialog(channel, muted, topic = "") {
  perhaps("start", `Start a conversation in ${channelName(channel)}`, [
    field("Topic", h("input", { name: "topic", value: topic, maxlength: 200, placeholder: "The first speaker chooses", autocomplete: "off" })),
    field("Who begins", select("agent", [["", "The bot whose turn it is"], ...bots(muted)])),
    field("Theme", select("theme", [["", "The channel's own"], ...(me.themes || []).map((name) => [name, name])])),
  ], "Start", (values) => ({ channel, ...given(values, "topic", "agent", "theme") }));
}

export function nextDialog(channel, running, muted) {
  const choices = bots(muted);
  if (!choices.length) return toast("Every bot is muted. Unmute a bot under Agents.");
  perhaps("next", "Who speaks next?", [
    field("Bot", select("agent", choices)),
    h("p", { class: "muted" }, running
      ? "This bot speaks right after the current turn, even if it has already spoken in this round."
      : "No conversation is running here, so this bot takes one turn."),
  ], "Choose", ({ agent }) => ({ channel, agent }));
}

export function stopDialog(channel) {
  perhaps("stop", `Stop the bots in ${channelName(channel)}?`, [
    h("p", null, "The running conversation ends, and nothing more is posted there."),
    field("For", select("minutes", [["30", "30 minutes"], ["120", "2 hours"], ["1440", "a day"]])),
  ], "Stop", ({ minutes }) => ({ channel, minutes: Number(minutes) }));
}

function muteDialog(agent) {
  perhaps("mute", `Mute ${agent.name}?`, [
    h("p", null, "It stays silent in every channel, but may finish the message it's writing."),
    field("For", select("minutes", [["60", "an hour"], ["480", "8 hours"], ["1440", "a day"], ["10080", "a week"]])),
  ], "Mute", ({ minutes }) => ({ agent: agent.key, minutes: Number(minutes) }));
}

function raiseDialog({ kind, id }, whose) {
  const sum = h("input", { name: "dollars", type: "number", min: "0.01", max: "25", step: "0.01", value: "1", required: true, inputmode: "decimal" });
  perhaps("raise_budget", `Raise today's limit of ${whose}`, [
    field("US dollars more", sum),
    h("p", { class: "muted" }, "This amount is added to the limit, for today only. You can add up to $25 at a time."),
  ], "Raise the limit", ({ dollars }) => ({ scope: kind === "all" ? "all" : `${kind}:${id}`, dollars: Number(dollars) }));
}

function timeDialog(title, name, slot, yes) {
  const time = h("input", { name: "time", type: "time", required: true });
  perhaps(name, title, [
    field(`Time (${me.timezone})`, time),
    h("p", { class: "muted" }, "Choose a time later today."),
  ], yes, (values) => ({ ...slot, time: values.time }));
}

// A dialog for an action: after the action it closes and calls `done(answer)`. `fields(values)` are the action's fields.
export function perhaps(name, title, children, yes, fields, done = () => {}) {
  let id = newId();
  ask(title, children, yes, async (values) => {
    try {
      done(await carryOut(name, { id, ...fields(values) }));
    } catch (error) {
      if (error.status !== 0) id = newId(); // without an answer, the same click again must not act twice
      throw error;
    }
  });
}

// --- parts ---

export function field(label, control) {
  control.id ||= `field-${control.name}`;
  return h("p", { class: "field" }, h("label", { for: control.id }, label), control);
}

export function select(name, choices) {
  return h("select", { name }, choices.map(([value, text]) => h("option", { value }, text)));
}

// Only bots take part in conversations, not personas; a muted bot would refuse.
const bots = (muted) => me.bots.filter((key) => !(key in muted)).map((key) => [key, agentName(key)]);

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

// Carries out an action. Throws ApiError.
export const attempt = (name, fields) => carryOut(name, { id: newId(), ...fields });

// The same; a failure becomes a toast.
export async function act(name, fields) {
  try {
    await attempt(name, fields);
  } catch (error) {
    toast(error.message, "bad");
  }
}

// One click is one action, however often it arrives: it has an id of its own, and is sent once more if no answer came.
async function carryOut(name, body) {
  const answer = await post(`api/actions/${name}`, body).catch((error) => {
    if (error.status !== 0) throw error;
    return post(`api/actions/${name}`, body);
  });
  toast(answer.text, "good");
  window.dispatchEvent(new CustomEvent("acted", { detail: { name, outcome: answer.outcome, ...body } }));
  return answer;
}

// Over plain HTTP from another machine a browser has no randomUUID.
function newId() {
  return crypto.randomUUID?.() || Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
