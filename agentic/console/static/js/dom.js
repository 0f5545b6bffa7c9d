// Builds what a page shows. A text becomes a text node, always: nothing here reads HTML.
import { face } from "./faces.js";
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
export const channelName = (id) => {
  const found = me.channels.find((channel) => channel.id === String(id));
  return `#${found ? found.name : id}`;
};

// `channel` is { id, name }; the name is missing for a channel that no bot of this process sees.
export const channelText = ({ id, name }) => (name ? `#${name}` : channelName(id));

const COLOUR = /^#[0-9a-f]{6}$/i;

// Sets --agent, from which app.css takes an agent's colour.
export function coloured(node, agent) {
  const colour = me.colours[agent];
  if (COLOUR.test(colour || "")) node.style.setProperty("--agent", colour);
  return node;
}

export function avatar(agent, name = agentName(agent)) {
  const drawn = agent in me.names ? face(agent) : [...String(name)][0] || "?";
  return coloured(h("span", { class: "avatar", "aria-hidden": "true" }, drawn), agent);
}

export function agentChip(agent) {
  if (!agent) return h("span", null, "–");
  return coloured(h("a", { class: "agent", href: `#/agent/${encodeURIComponent(agent)}` }, agentName(agent)), agent);
}

export function channelLink(id) {
  return h("a", { href: `#/live/${encodeURIComponent(id)}` }, channelName(id));
}

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

// A table that scrolls by itself: table("Turns", ["When", "Agent"], rows), each row an array of cells.
export function table(caption, headings, rows) {
  return scrolling("scroll", caption, headings, rows.map((cells) => cells.map((cell) => h("td", null, cell))));
}

// The same with numbers in all columns but the first, which names the row.
export function numberTable(caption, headings, rows) {
  return scrolling("scroll numbers", caption, headings, rows.map(([name, ...cells]) =>
    [h("th", { scope: "row", class: "row-name" }, name), cells.map((cell) => h("td", null, cell))]));
}

function scrolling(kind, caption, headings, rows) {
  const head = h("tr", null, headings.map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map((cells) => h("tr", null, cells));
  return h("div", { class: kind, tabindex: "0", role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "hidden" }, caption), h("thead", null, head), h("tbody", null, body)));
}

// "Older": adds the next page of a list below. `more()` adds it and returns whether there is another one.
export function olderButton(more) {
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true;
    try {
      if (!(await more())) row.remove();
    } catch (error) {
      if (error.name !== "AbortError") toast(error.message, "bad");
    } finally {
      button.disabled = false;
    }
  } }, "Older");
  const row = h("div", { class: "row centre" }, button);
  return row;
}

// Asks in a dialog; resolves to the form's values, or null where the person thought better of it.
export function ask(title, children, yes = "OK") {
  return new Promise((resolve) => {
    const form = h("form", { method: "dialog" }, h("h2", { id: "dialog-title" }, title), ...[children].flat(),
      h("div", { class: "row end" },
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"),
        h("button", { class: "primary", value: "yes" }, yes)));
    const dialog = h("dialog", { "aria-labelledby": "dialog-title" }, form);
    dialog.addEventListener("close", () => {
      const values = dialog.returnValue === "yes" ? Object.fromEntries(new FormData(form)) : null;
      dialog.remove();
      resolve(values);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

export function toast(text, kind = "") {
  const note = h("div", { class: `toast ${kind}` }, h("span", null, text),
    h("button", { class: "quiet icon", "aria-label": "Dismiss", onclick: () => note.remove() }, "×"));
  document.getElementById("toasts").append(note);
  setTimeout(() => note.remove(), kind === "bad" ? 12000 : 5000);
}
