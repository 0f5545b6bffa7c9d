// A turn in words: what called it, how it ended, its address. Used by the pages of turns, conversations and agents.
import { chip, h } from "./dom.js";
import { shownEmoji } from "./markup.js";

const TASKS = {
  heartbeat: "ran a check from its heartbeat.md",
  cron: "ran a cron job from its agents.md",
  hook: "ran a hook from its agents.md",
  webhook: "handled a webhook event",
};

// tasks for while nobody writes
const IDLE = {
  summarise: "was asked to summarize a conversation while nobody was writing",
  profile: "was asked to note a person's topics while nobody was writing",
  follow_up: "was asked to follow up on a conversation, unprompted",
  discover: "was asked to find news for a person, unprompted",
};

// outcome: its name, the colour of its chip
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

// The name of a person who has written lately; else the id is all that is known.
const personText = (id, name) => name || `person ${id}`;

// A person, with a link to the turns that they called.
export const personLink = (id, name) => h("a", { href: turnsAddress({ person: id }), title: `person ${id}`, dir: "auto" }, personText(id, name));

// "called by Mia", "took its turn in round 3": what brought it about.
export function calledBy(turn) {
  const person = turn.asked_by ? personText(turn.asked_by, turn.asked_by_name) : "a person";
  switch (turn.trigger) {
    case "mention": return `was mentioned by ${person}`;
    case "call": return `was mentioned by another bot, in a chain that ${person} started`;
    case "continue": return `was asked by ${person} to continue`;
    case "reactive": return `joined in after another bot answered ${person}`;
    case "starter": return "opened a conversation";
    case "round": return `took its turn in round ${turn.round || 1}`;
    case "errand": return TASKS[turn.kind] || "did an automation task";
    default: return IDLE[turn.trigger] || turn.trigger || "was triggered by something unknown";
  }
}

// What it did besides posting.
export function alsoDid(turn) {
  return [turn.emoji && `reacted with ${shownEmoji(turn.emoji)}`, turn.image && "drew a picture"].filter(Boolean).join(", ");
}

export const turnAddress = (turn) => `#/turn/${encodeURIComponent(turn.agent)}/${encodeURIComponent(turn.id)}`;
export const conversationAddress = (id) => `#/conversation/${encodeURIComponent(id)}`;
export const turnsAddress = (filters) => `#/turns?${new URLSearchParams(filters)}`;
