// Builds and formats what a page shows. A text becomes a text node, always: nothing here reads HTML.
import { face } from "./faces.js";
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

// --- numbers and times ---

const number = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function money(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  const size = Math.abs(dollars);
  if (size === 0) return "$0";
  if (size < 0.00005) return "< $0.0001";
  return `${dollars < 0 ? "-" : ""}$${size.toFixed(size < 0.01 ? 4 : size < 1 ? 3 : 2)}`;
}

export const count = (value) => number.format(value || 0);
export const several = (value, one, more = `${one}s`) => `${count(value)} ${value === 1 ? one : more}`;
export const tokens = (value) => (value < 10000 ? count(value) : compact.format(value));
export const percent = (share) => `${Math.round((share || 0) * 100)} %`;

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(value % 60)} s`;
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} days`;
}

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const STEPS = [["day", 86400], ["hour", 3600], ["minute", 60]];

function ago(unix) {
  const past = unix - Date.now() / 1000;
  for (const [unit, size] of STEPS) if (Math.abs(past) >= size) return relative.format(Math.trunc(past / size), unit);
  return past > 5 ? `in ${Math.round(past)} seconds` : past < -5 ? `${Math.round(-past)} seconds ago` : "now";
}

const inZone = (options) => new Intl.DateTimeFormat("en-GB", { timeZone: zone(), ...options });
function zone() {
  try {
    return me.timezone && new Intl.DateTimeFormat("en", { timeZone: me.timezone }) ? me.timezone : undefined;
  } catch {
    return undefined; // a zone that this browser does not know
  }
}

export const dateTime = (unix) => inZone({ dateStyle: "medium", timeStyle: "medium" }).format(unix * 1000);
export const clock = (unix) => inZone({ hour: "2-digit", minute: "2-digit" }).format(unix * 1000);

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

// A table that scrolls by itself: table("Turns", ["When", "Agent"], rows), each row an array of cells.
export function table(caption, headings, rows) {
  const head = h("tr", null, headings.map((text) => h("th", { scope: "col" }, text)));
  const body = rows.map((cells) => h("tr", null, cells.map((cell) => h("td", null, cell))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", null, h("caption", { class: "hidden" }, caption), h("thead", null, head), h("tbody", null, body)));
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
