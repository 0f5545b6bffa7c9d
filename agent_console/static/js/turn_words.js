// A turn in words: what called it, how it ended, where. Used by the pages of turns, conversations and agents.
import { chip, clock, h } from "./dom.js";
import { me } from "./me.js";

const TASKS = {
  heartbeat: "did a check of its heartbeat.md",
  cron: "did a cron job of its agents.md",
  hook: "did a hook of its agents.md",
  webhook: "handled a webhook event",
};

// outcome: its name, the colour of its chip
export const OUTCOMES = {
  posted: ["Posted", "good"],
  reacted: ["Reacted", "good"],
  skipped: ["Skipped", ""],
  refused: ["Refused", "warn"],
  timed_out: ["Timed out", "bad"],
  failed: ["Failed", "bad"],
};

export function outcomeChip(turn) {
  const [name, kind] = OUTCOMES[turn.outcome] || [turn.outcome || "Unknown", ""];
  return chip(name, kind);
}

// The name of a person who has written lately; else the id is all that is known.
export const personText = (id, name) => name || `person ${id}`;

// A person, with a link to the turns that they called.
export const personLink = (id, name) => h("a", { href: turnsAddress({ person: id }), title: `person ${id}`, dir: "auto" }, personText(id, name));

// "called by Mia", "took its turn in round 3": what brought it about.
export function calledBy(turn) {
  const person = turn.asked_by ? personText(turn.asked_by, turn.asked_by_name) : "a person";
  switch (turn.trigger) {
    case "mention": return `was called by ${person}`;
    case "call": return `was called by another bot, in a chain that ${person} began`;
    case "continue": return `was asked by ${person} to continue`;
    case "reactive": return `joined in after another bot answered ${person}`;
    case "starter": return "opened a conversation";
    case "round": return `had its turn in round ${turn.round || 1}`;
    case "errand": return TASKS[turn.kind] || "did an automation task";
    default: return turn.trigger || "was called by something unknown";
  }
}

// A server's own emoji is a picture of Discord's, which the page does not load: its name stands for it.
export const shownEmoji = (emoji) => (/^<a?:(\w+):\d+>$/.exec(emoji) || [null, null])[1]?.replace(/^|$/g, ":") || emoji;

// What it did besides posting.
export function alsoDid(turn) {
  return [turn.emoji && `reacted with ${shownEmoji(turn.emoji)}`, turn.image && "drew a picture"].filter(Boolean).join(", ");
}

export const turnAddress = (turn) => `#/turn/${encodeURIComponent(turn.agent)}/${encodeURIComponent(turn.id)}`;
export const conversationAddress = (id) => `#/conversation/${encodeURIComponent(id)}`;
export const turnsAddress = (filters) => `#/turns?${new URLSearchParams(filters)}`;

// `channel` is { id, name }; the name is missing for a channel that no bot of this process sees.
export function channelText(channel) {
  const set = me.channels.find((each) => each.id === channel.id);
  return `#${channel.name || (set && set.name) || channel.id}`;
}

// --- days and times, in the owner's time zone ---

const formats = {};
function inZone(name, options) {
  formats[name + me.timezone] ??= new Intl.DateTimeFormat("en-GB", { timeZone: me.timezone, ...options });
  return formats[name + me.timezone];
}

// YYYY-MM-DD, as the record has it.
export function dayOf(unix) {
  const parts = inZone("day", { year: "numeric", month: "2-digit", day: "2-digit" }).formatToParts(unix * 1000);
  const part = (type) => parts.find((each) => each.type === type).value;
  return `${part("year")}-${part("month")}-${part("day")}`;
}

// "Today", "Yesterday", "Friday, 20 November 2026" of a YYYY-MM-DD.
export function dayName(day) {
  const now = Date.now() / 1000;
  if (day === dayOf(now)) return "Today";
  if (day === dayOf(now - 86400)) return "Yesterday";
  return new Date(`${day}T12:00:00Z`).toLocaleDateString("en-GB", { dateStyle: "full", timeZone: "UTC" });
}

// "20 Nov" of a YYYY-MM-DD.
export const shortDay = (day) =>
  new Date(`${day}T12:00:00Z`).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

export const dayAndClock = (unix) => `${dayName(dayOf(unix))}, ${clock(unix)}`;

export function bytes(value) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let at = 0;
  for (; value >= 999.5 && at < units.length - 1; at++) value /= 1000;
  return `${at && value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

// "Older": adds the next page below. `more()` adds it and returns whether there is another one.
export function olderButton(more) {
  const button = h("button", { type: "button", onclick: async () => {
    button.disabled = true;
    try {
      if (!(await more())) row.remove();
    } finally {
      button.disabled = false;
    }
  } }, "Older");
  const row = h("div", { class: "row centre" }, button);
  return row;
}

// --- money in columns: the same decimals in all rows ---

const fixed = (value, digits) => `$${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
export const cents = (value) => fixed(value, 2);
export const hundredths = (value) => fixed(value, 4); // of a cent
export const dollarsLike = (values) => (Math.max(0, ...values) >= 1 || values.every((value) => !value) ? cents : hundredths);
