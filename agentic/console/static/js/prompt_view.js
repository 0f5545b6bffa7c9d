// What a model was sent in one call, part by part, and what it answered, to the letter.
import { get } from "./api.js";
import { diffView } from "./diff.js";
import { agentName, chip, fill, h, toast } from "./dom.js";
import { count, dayAndClock, percent } from "./format.js";

const LONG = 1200; // characters of a part, above which it is folded

// `call` is one of GET /api/turns/{agent}/{id}; its `words` are there. `turn` is given for the call whose prompt can be
// compared with that of an earlier turn.
export function promptView(agent, call, turn = null) {
  const { words } = call;
  const parts = partsOf(agent, words);
  const whole = h("div", { class: "stack" },
    h("p", { class: "muted" }, cacheLine(call, parts.some(({ marked }) => marked))),
    h("div", { class: "prompt" }, parts.map(partNode)),
    rounds(words.options.rounds));
  const body = h("div", { class: "stack" }, whole);
  return h("div", { class: "stack" },
    h("div", { class: "row apart" }, h("h3", null, "Prompt"), copyButton("Copy the prompt", () => plainText(words))),
    turn && views(turn, whole, body), body,
    otherOptions(words.options),
    words.reasoning && h("details", null, h("summary", null, "Reasoning, never posted"), h("pre", { dir: "auto" }, words.reasoning)),
    h("div", { class: "row apart" }, h("h3", null, "Completion"), copyButton("Copy the completion", () => words.completion)),
    words.stop && words.stop !== "stop" && chip(STOPS[words.stop] || words.stop, "warn"),
    words.completion ? h("pre", { dir: "auto" }, words.completion) : h("p", { class: "muted" }, "The model wrote nothing."),
    toolCalls(words.tool_calls),
    words.decision && h("div", { class: "stack" }, h("h3", null, "Decision"), decision(words.decision)));
}

// Two buttons: the whole prompt, or what changed in it since an earlier turn of the bot.
function views(turn, whole, body) {
  const changes = h("div", { class: "stack" }, h("p", { class: "loading" }, "Comparing…"));
  const show = (node) => (event) => {
    for (const button of buttons) button.removeAttribute("aria-current");
    event.currentTarget.setAttribute("aria-current", "true");
    fill(body, node);
    if (node === changes && !changes.dataset.asked) compare(turn, changes);
  };
  const buttons = [h("button", { type: "button", "aria-current": "true", onclick: show(whole) }, "Whole prompt"),
    h("button", { type: "button", onclick: show(changes) }, "What changed")];
  return h("div", { class: "tabs", role: "group", "aria-label": "What to show of the prompt" }, buttons);
}

async function compare(turn, place, other = "") {
  place.dataset.asked = "true";
  try {
    const found = await get(`api/turns/${encodeURIComponent(turn.agent)}/${encodeURIComponent(turn.id)}/changes`, { with: other });
    const choice = h("select", { "aria-label": "Compare with its turn", onchange: (event) => compare(turn, place, event.target.value).then(() => place.querySelector("select")?.focus()) },
      found.others.map(({ id, at }, n) => h("option", { value: id, selected: id === found.with }, `${n ? "" : "its last one, "}${dayAndClock(at)}`)));
    const lines = found.lines && (found.lines.length ? diffView(found.lines) : h("p", { class: "muted" }, "Both prompts are the same."));
    fill(place,
      h("div", { class: "row" }, "Compared with", choice, "in this channel:",
        h("b", { class: "diff-count added" }, `+${count(found.added)}`), h("b", { class: "diff-count removed" }, `−${count(found.removed)}`), found.added + found.removed === 1 ? "line" : "lines"),
      lines || h("p", { class: "muted" }, "The prompts are too long to compare line by line."));
  } catch (error) {
    fill(place, h("p", { class: "muted" }, error.message));
  }
}

const STOPS = { length: "cut off at the length limit", refusal: "the model declined", other: "ended for another reason" };

// --- the parts ---

// Each is { label, note, text, marked }; `marked`: a provider's cache may hold everything up to its end.
function partsOf(agent, words) {
  const last = words.history.map(({ cache }) => cache).lastIndexOf(true);
  const cached = last >= 0 || words.stable > 0;
  const names = { user: "User", assistant: `Assistant (${agentName(agent)})`, tool: "Tool" };
  const stable = [...words.system].slice(0, words.stable).join("");
  const system = stable && stable.length < words.system.length
    ? [{ label: "System", note: "who it is", text: stable, marked: true }, { label: "System", note: "the channel and its rules", text: words.system.slice(stable.length), marked: last >= 0 }]
    : [{ label: "System", text: words.system, marked: cached }];
  const history = words.history.map((message, n) => ({
    label: names[message.role] || message.role,
    note: message.pictures ? `with ${message.pictures === 1 ? "a picture" : `${message.pictures} pictures`}, not recorded` : "",
    text: message.text,
    marked: n <= last,
    end: message.cache,
  }));
  const task = [{ label: "Task", note: "changes each time", text: words.text }];
  const prefill = words.prefill === null ? [] : [{ label: "Beginning of its answer", text: words.prefill }];
  return [...system, ...history, ...task, ...prefill].filter(({ text }) => text);
}

function partNode(part) {
  const label = h("div", { class: "part-label" }, h("b", null, part.label), part.note && h("small", null, part.note));
  const text = h("pre", { dir: "auto" }, part.text.replace(/^\n+/, ""));
  const body = part.text.length > LONG ? folded(text, part.text) : text;
  return [
    h("div", { class: part.marked ? "part marked" : "part" }, label, body),
    part.end && h("div", { class: "cache-end" }, h("span", null, "the cached part may end here")),
  ];
}

function folded(node, text) {
  const box = h("div", { class: "folded" }, node);
  const button = h("button", { type: "button", class: "quiet", "aria-expanded": "false", onclick: () => {
    const open = box.classList.toggle("open");
    button.setAttribute("aria-expanded", String(open));
    fill(button, open ? "Show less" : `Show all ${count(text.length)} characters`);
  } }, `Show all ${count(text.length)} characters`);
  return h("div", null, box, button);
}

function cacheLine(call, marked) {
  const read = call.cached_tokens;
  if (read) return `${count(read)} of ${count(call.input_tokens)} input tokens (${percent(read / call.input_tokens)}) came from the provider’s cache. The marked part may be cached.`;
  return marked ? "The marked part may be cached. This call read nothing from a cache." : "No part of this prompt is marked for caching.";
}

// --- tools, options, decision ---

function rounds(steps) {
  if (!steps || !steps.length) return null;
  return h("div", { class: "stack" }, h("h3", null, "Tools used before this call"), steps.map((step) =>
    h("div", { class: "prompt" }, step.text && partNode({ label: "It said", text: step.text }),
      step.calls.map((each, n) => [
        partNode({ label: each.name, note: "called with", text: pretty(each.arguments) }),
        step.results[n] && partNode({ label: each.name, note: step.results[n].is_error ? "failed" : "gave", text: step.results[n].text }),
      ]))));
}

function toolCalls(calls) {
  if (!calls.length) return null;
  return h("div", { class: "stack" }, h("h3", null, "Tool calls"),
    h("div", { class: "prompt" }, calls.map((each) => partNode({ label: each.name, note: "called with", text: pretty(each.arguments) }))));
}

function otherOptions({ rounds: _, ...options }) {
  if (!Object.keys(options).length) return null;
  const names = Object.keys(options).join(", ").replaceAll("_", " ");
  return h("details", null, h("summary", null, `Other options of the call: ${names}`), h("pre", null, pretty(options)));
}

function decision(values) {
  const set = Object.entries(values).filter(([, value]) => value !== null && value !== false && value !== "");
  return h("dl", { class: "facts" }, set.map(([name, value]) =>
    [h("dt", null, name.replaceAll("_", " ")), h("dd", { dir: "auto" }, typeof value === "string" ? value : typeof value === "object" ? pretty(value) : String(value === true ? "yes" : value))]));
}

const pretty = (value) => JSON.stringify(value, null, 2);

// --- copying ---

function plainText(words) {
  const history = words.history.map(({ role, text }) => `[${role}]\n${text}`);
  return [words.system && `[system]\n${words.system}`, ...history, words.text && `[task]\n${words.text}`, words.prefill].filter(Boolean).join("\n\n");
}

function copyButton(name, text) {
  return h("button", { type: "button", class: "quiet", onclick: async () => {
    try {
      await navigator.clipboard.writeText(text());
      toast("Copied.", "good");
    } catch {
      toast("The browser doesn't allow copying. Select the text instead.", "bad");
    }
  } }, name);
}
