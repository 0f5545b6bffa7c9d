// A turn in words: what called it, how it ended, its address. Used by the pages of turns, conversations and agents.
import { channelText, chip, h } from "./dom.js";
import { shownEmoji } from "./markup.js";

const TASKS = {
  heartbeat: "ran a check from its heartbeat.md",
  cron: "ran a cron job from its agents.md",
  hook: "ran a hook from its agents.md",
  webhook: "handled a webhook event",
};

// calls that aren't an answer in a channel, and tasks for while nobody writes
const OTHERS = {
  arena: "answered in an arena",
  judge: "judged a debate",
  card: "wrote the closing card",
  ledger: "noted the arguments",
  summarise: "was asked to summarize a conversation while nobody was writing",
  profile: "was asked to note a person's topics while nobody was writing",
  follow_up: "was asked to follow up on a conversation, unprompted",
  discover: "was asked to find news for a person, unprompted",
  unknown: "was triggered by something unknown",
};

// outcome: its name, the color of its chip
export const OUTCOMES = {
  posted: ["Posted", "good"],
  reacted: ["Reacted", "good"],
  written: ["Written", "good"],
  skipped: ["Skipped", ""],
  refused: ["Refused", "warn"],
  timed_out: ["Timed out", "bad"],
  failed: ["Failed", "bad"],
};

export function outcomeChip(turn) {
  const [name, kind] = OUTCOMES[turn.outcome] || [turn.outcome || "Unknown", ""];
  return chip(name, kind);
}

// A person's name, or the end of the id if the name isn't known.
export const personText = (id, name) => name || `person …${id.slice(-4)}`;

// A person, with a link to the turns that they called.
export const personLink = (id, name) => h("a", { href: turnsAddress({ person: id }), title: `person ${id}`, dir: "auto" }, personText(id, name));

// "called by Mia", "took its turn in round 3": what brought it about.
export function calledBy(turn) {
  if (turn.room_turn) return `took turn ${turn.room_turn} in a room`;
  const person = turn.asked_by ? personText(turn.asked_by, turn.asked_by_name) : "a person";
  switch (turn.trigger) {
    case "mention": return `was mentioned by ${person}`;
    case "call": return `was mentioned by another bot, in a chain that ${person} started`;
    case "continue": return `was asked by ${person} to continue`;
    case "reactive": return `joined in after another bot answered ${person}`;
    case "starter": return "opened a conversation";
    case "round": return `took its turn in round ${turn.round || 1}`;
    case "errand": return TASKS[turn.kind] || "did an automation task";
    default: return OTHERS[turn.trigger || "unknown"] || turn.trigger;
  }
}

// What it did besides posting.
export function alsoDid(turn) {
  return [turn.emoji && `reacted with ${shownEmoji(turn.emoji)}`, turn.image && "drew a picture"].filter(Boolean).join(", ");
}

// A channel or a room, by name.
export const channelChip = (channel) => h("span", { class: "chip", title: channelText(channel) }, channelText(channel));

// `roomText` is what a room is called if its topic is beside the link.
export const placeLink = ({ room, ...channel }, roomText = `the room “${room}”`) => h("a", { class: "place", href: `#/${room ? "room" : "live"}/${encodeURIComponent(channel.id)}` },
  room ? roomText : channelText(channel));

// The filters of the list of turns; a turn's address has the filters of its list.
export const TURN_FILTERS = ["words", "within", "agent", "person", "channel", "outcome", "hours", "from", "to", "order", "model", "conversation"];

function withFilters(address, filters) {
  const set = new URLSearchParams(TURN_FILTERS.filter((name) => filters[name]).map((name) => [name, filters[name]])).toString();
  return set ? `${address}?${set}` : address;
}

export const turnAddress = (turn, filters = {}) => withFilters(`#/turn/${encodeURIComponent(turn.agent)}/${encodeURIComponent(turn.id)}`, filters);
export const conversationAddress = (id) => `#/conversation/${encodeURIComponent(id)}`;
export const turnsAddress = (filters) => withFilters("#/turns", filters);
