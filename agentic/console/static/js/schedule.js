// Today's schedule as a line and a list, to be changed, and what owners and moderators did.
import { act, addTimeButton, slotActions } from "./actions.js";
import { get } from "./api.js";
import { dayLine } from "./day_line.js";
import { agentChip, at, card, empty, fill, h, olderButton, when } from "./dom.js";
import { clock, dayOf, several } from "./format.js";
import { me } from "./me.js";
import { conversationAddress, personLink, placeLink, turnAddress } from "./turn_words.js";

const LATE = 900; // seconds after a scheduled time in which its conversation may begin

export async function render(root, { signal }) {
  const times = h("div", { class: "stack" });
  const past = h("div", { class: "stack" });
  const show = async () => {
    const [schedule, actions] = await Promise.all([get("api/schedule", {}, { signal }), me.recorded ? actionsPage(signal) : null]);
    fill(times, today(schedule));
    fill(past, actions ? list(actions, signal) : empty("Nothing is recorded here (RECORD_DAYS=0)."));
  };
  await show();
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Schedule"), h("div", { class: "row" }, addTimeButton())),
    card(`Today’s conversations (${me.timezone})`, times), card("What owners and moderators did", past));
  const again = () => show().catch(() => {}); // the toast of the action has said what happened
  window.addEventListener("acted", again);
  return () => window.removeEventListener("acted", again);
}

// --- today ---

function today(day) {
  const open = day.items.filter((slot) => !slot.done);
  const talkOf = conversationsBySlot(day);
  const others = day.conversations.filter((talk) => ![...talkOf.values()].includes(talk));
  const move = (slot, to) => act("move", { at: slot.at, time: clock(to) });
  return [
    dayLine(day, why, move),
    open.length > 0 && h("p", { class: "muted" }, "Drag a time along the line", h("span", { class: "with-keys" }, ", or choose it with Tab, move it with the arrow keys, and press Enter"), "."),
    h("ul", { class: "slots day-list" }, day.items.map((slot) => slotRow(slot, talkOf.get(slot)))),
    !open.length && h("p", { class: "muted" }, "No further conversation is scheduled today."),
    others.length > 0 && h("details", null, h("summary", null, `${several(others.length, "conversation")} today that ${others.length === 1 ? "wasn’t" : "weren’t"} scheduled`),
      h("ul", { class: "slots day-list" }, others.map((talk) => h("li", { class: "past" }, at(talk.started_at), talkWords(talk))))),
  ];
}

function slotRow(slot, talk) {
  return h("li", { class: slot.done ? "past" : "" }, at(slot.at),
    h("div", null, talk ? talkWords(talk) : slot.done ? h("span", { class: "muted" }, slot.at * 1000 > Date.now() ? "Skipped by an owner" : "No conversation began") : "Scheduled", h("small", null, dayOf(slot.at) > dayOf(Date.now() / 1000) && "Tomorrow. ", why(slot))),
    !slot.done && slotActions(slot));
}

const talkWords = (talk) => h("span", { class: "row" }, h("a", { class: "place", href: conversationAddress(talk.id) }, talk.topic || `${talk.theme}, without a topic`), placeLink(talk.channel, "its room"));

// Why a time was chosen.
function why({ added, part, planned }) {
  const moved = planned === null ? "" : `Moved from ${clock(planned)}. `;
  if (added) return `${moved}Added by an owner.`;
  return part ? `${moved}${moved ? "It was a" : "A"} random time between ${clock(part[0])} and ${clock(part[1])}, its part of the active hours.` : `${moved}A random time in the active hours.`;
}

// Each conversation belongs to the last time before it, if it began soon after that.
function conversationsBySlot({ items, conversations }) {
  const found = new Map();
  for (const talk of [...conversations].reverse()) {
    const slot = items.findLast((each) => each.done && each.at <= talk.started_at + 1 && talk.started_at - each.at < LATE && !found.has(each));
    if (slot) found.set(slot, talk);
  }
  return found;
}

// --- what was done ---

// A record that has nothing yet is an empty list.
async function actionsPage(signal, before) {
  try {
    return await get("api/actions", { before }, { signal });
  } catch (error) {
    if (error.status === 404) return { items: [], next: null };
    throw error;
  }
}

function list(page, signal) {
  if (!page.items.length) return empty("Nothing yet. Actions appear here after a moment.");
  const rows = h("ul", { class: "slots action-list" }, page.items.map(row));
  const more = h("div", { class: "stack" }, page.next && olderButton(async () => {
    fill(more, list(await actionsPage(signal, page.next), signal));
  }));
  return [rows, more];
}

function row(action) {
  const where = [action.channel && placeLink(action.channel), action.agent && agentChip(action.agent)].filter(Boolean);
  const came = action.action === "replay" ? replayed(action) : action.detail || (action.outcome === "done" ? "" : action.outcome?.replaceAll("_", " "));
  const who = { console: "in the console", forgotten: "by someone who used /forget me" }[action.by] || ["by ", personLink(action.by, action.name)];
  return h("li", null, h("div", { class: "row" }, h("b", null, action.what), where), h("span", { class: "muted" }, when(action.at)),
    h("p", { class: "muted" }, came && [came, " · "], who));
}

// Its detail is the turn's id, then what was changed.
function replayed({ agent, detail, outcome }) {
  const [id, ...changed] = detail.split(", ");
  return [h("a", { href: turnAddress({ agent, id }) }, "the turn"), " · ", [outcome.replace(/\.$/, ""), ...changed].join(", ")];
}
