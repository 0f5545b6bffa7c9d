// Builds what a page shows. A text becomes a text node, always: nothing here reads HTML.
import { facePaths } from "./faces.js";
import { ago, clock, dateTime } from "./format.js";
import { me } from "./me.js";

// h("a", { href: "#/turns", class: "x", onclick: f, dataset: { id: 1 }, "aria-label": "…" }, "text", node, [nodes], null)
export function h(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) set(node, name, value);
  node.append(...flat(children));
  return node;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes || {})) node.setAttribute(name, value);
  node.append(...flat(children));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...flat(children));
  return node;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : String(child)));
}

function set(node, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
  else if (name === "dataset") Object.assign(node.dataset, value);
  else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
  else if (name === "href") node.setAttribute("href", safeAddress(value));
  else node.setAttribute(name, value === true ? "" : value);
}

// A link to the console itself or to the web; anything else (javascript:, data:) leads nowhere.
function safeAddress(text) {
  return /^(https?:\/\/|#|\.?\/|api\/)/i.test(String(text)) ? String(text) : "#";
}

// --- times ---

// "5 minutes ago", kept true; the exact time as its title.
export function when(unix) {
  if (!unix) return h("span", null, "–");
  const stamp = new Date(unix * 1000).toISOString();
  return h("time", { datetime: stamp, title: dateTime(unix), dataset: { relative: unix } }, ago(unix));
}

// "14:05", in the owner's time zone.
export function at(unix) {
  return h("time", { datetime: new Date(unix * 1000).toISOString(), title: dateTime(unix) }, clock(unix));
}

setInterval(() => {
  for (const node of document.querySelectorAll("time[data-relative]")) {
    const text = ago(Number(node.dataset.relative));
    if (node.textContent !== text) node.textContent = text;
  }
}, 10000);

// --- agents and channels ---

export const agentName = (agent) => me.names[agent] || agent || "–";
export const channelName = (id) => channelText({ id });

// `channel` is { id, name, room }: its name is missing if no bot of this process sees it; a room has its topic.
export function channelText({ id, name, room }) {
  const known = name || me.channels.find((channel) => channel.id === String(id))?.name;
  return room ? `Room: ${room}` : known ? `#${known}` : `unknown channel …${String(id).slice(-4)}`;
}

const COLOUR = /^#[0-9a-f]{6}$/i;

// Sets --agent, from which the style sheet takes an agent's color.
export function coloured(node, agent) {
  const colour = me.colours[agent];
  if (COLOUR.test(colour || "")) node.style.setProperty("--agent", colour);
  return node;
}

export function avatar(agent, name = agentName(agent)) {
  const face = () => svg("svg", { viewBox: "0 0 24 24", class: "face" }, facePaths(agent).map((d) => svg("path", { d })));
  const drawn = agent in me.names ? face() : [...String(name)][0] || "?";
  return coloured(h("span", { class: "avatar", "aria-hidden": "true" }, drawn), agent);
}

export function agentChip(agent) {
  if (!agent) return h("span", null, "–");
  return coloured(h("a", { class: "agent", href: `#/agent/${encodeURIComponent(agent)}` }, agentName(agent)), agent);
}

// An agent's name in its color, within a sentence.
export const agentInline = (agent) => coloured(h("b", { class: "agent-name" }, agentName(agent)), agent);

// --- small parts ---

export const card = (title, ...children) =>
  h("section", { class: "card" }, title && h("h2", null, title), ...children);

export const chip = (text, kind = "") => h("span", { class: `chip ${kind}` }, text);

export const empty = (text) => h("p", { class: "empty" }, text);

// A meter with its label and its figures in words: meter("Today", 1.2, 5, "$1.20 of $5").
export function meter(label, value, most, words) {
  const share = most > 0 ? Math.min(1, value / most) : 0;
  const level = share >= 0.9 ? "bad" : share >= 0.7 ? "warn" : "good";
  const bar = h("span", { class: "meter-bar" }, h("span", { style: { width: `${share * 100}%` } }));
  const attributes = { class: `meter ${level}`, role: "meter", "aria-label": label, "aria-valuemin": 0 };
  Object.assign(attributes, { "aria-valuemax": most || 0, "aria-valuenow": value, "aria-valuetext": words });
  return h("div", attributes, h("span", { class: "meter-label" }, h("span", null, label), h("span", null, words)), bar);
}

export const figure = (value, name) => h("div", { class: "figure" }, h("b", null, value), h("span", null, name));

// A table that scrolls by itself: table("Turns", ["When", "Agent"], rows), each row an array of cells, of which the first
// names it. A `kind` may be "numbers", for all other columns, and "stacks": a phone shows each row as a small card.
export function table(caption, headings, rows, kind = "") {
  const head = h("tr", { role: "row" }, headings.map((text) => h("th", { scope: "col", role: "columnheader" }, text)));
  const body = rows.map(([name, ...cells]) => h("tr", { role: "row" }, h("th", { scope: "row", role: "rowheader", class: "row-name" }, name),
    cells.map((cell, n) => h("td", { role: "cell", "data-label": headings[n + 1] }, cell))));
  return h("div", { class: `scroll ${kind}`, tabindex: "0", role: "region", "aria-label": caption },
    h("table", { role: "table" }, h("caption", { class: "hidden" }, caption), h("thead", { role: "rowgroup" }, head), h("tbody", { role: "rowgroup" }, body)));
}

export const numberTable = (caption, headings, rows, kind = "") => table(caption, headings, rows, `numbers ${kind}`);

// "Older": adds the next page of a list below. `more()` adds it and returns whether there is another one.
export function olderButton(more) {
  const press = async () => {
    button.disabled = true;
    try {
      if (!(await more())) row.remove();
    } catch (error) {
      if (error.name !== "AbortError") toast(error.message, "bad");
    } finally {
      button.disabled = false;
    }
  };
  const button = h("button", { type: "button", onclick: press }, "Older");
  const row = h("div", { class: "row centre older" }, button);
  return Object.assign(row, { more: press });
}

// Asks in a dialog, and waits for `submit(values)`. If that throws, the dialog stays open with what was typed, and says
// why: beside the field that the error names, or beside the only field.
export function ask(title, children, yes, submit) {
  const problem = h("p", { class: "problem", id: "dialog-problem", role: "alert" });
  const button = h("button", { class: "primary" }, yes);
  const foot = h("div", { class: "row end" }, h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"), button);
  const form = h("form", null, h("h2", { id: "dialog-title" }, title), ...[children].flat(), problem, foot);
  const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
  const blame = (error) => {
    const fields = [...form.elements].filter((each) => each.name);
    const wrong = fields.find((each) => each.name === error.field) || (fields.length === 1 ? fields[0] : null);
    fill(problem, error.message);
    (wrong?.closest(".field, fieldset") || foot).after(problem);
    if (!wrong) return foot.before(problem);
    wrong.setAttribute("aria-invalid", "true");
    wrong.setAttribute("aria-describedby", problem.id);
    wrong.focus();
  };
  form.addEventListener("input", ({ target }) => { target.removeAttribute("aria-invalid"); fill(problem); });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.getAttribute("aria-busy")) return;
    button.setAttribute("aria-busy", "true");
    fill(problem);
    try {
      await submit(Object.fromEntries(new FormData(form)));
      dialog.close();
    } catch (error) {
      if (error.status === undefined) console.error(error);
      blame(error);
    } finally {
      button.removeAttribute("aria-busy");
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export function toast(text, kind = "") {
  const note = h("div", { class: `toast ${kind}` }, h("span", null, text),
    h("button", { class: "quiet icon", "aria-label": "Dismiss", onclick: () => note.remove() }, "×"));
  if (kind === "bad") note.dataset.until = "page"; // it is about the page on which it came
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 12000 : 5000);
}
