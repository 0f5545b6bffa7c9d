// The conversations of the agents, newest first.
import { get } from "./api.js";
import { agentChip, at, channelText, chip, empty, fill, h, olderButton, when } from "./dom.js";
import { dayName, dayOf, money, several } from "./format.js";
import { me } from "./me.js";
import { channelChip, conversationAddress } from "./turn_words.js";

export async function render(root, { query, signal }) {
  const channel = query.get("channel") || "";
  const list = h("div", { class: "stack" });
  const page = await get("api/conversations", { channel }, { signal });
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Conversations"), channelFilter(channel)), list);
  if (!page.items.length) {
    fill(list, empty(channel ? "No conversation is recorded in this channel." : "No conversation is recorded yet. Start one on the Live page, or wait for the next scheduled time."));
    return;
  }
  let before = page.next;
  add(list, page.items);
  if (!before) return;
  const older = olderButton(async () => {
    const next = await get("api/conversations", { channel, before }, { signal });
    older.remove();
    add(list, next.items);
    list.append(older);
    before = next.next;
    return Boolean(before);
  });
  list.append(older);
}

function channelFilter(value) {
  const change = (event) => { location.hash = event.target.value ? `#/conversations?channel=${encodeURIComponent(event.target.value)}` : "#/conversations"; };
  return h("label", { class: "row end" }, h("span", { class: "hidden" }, "Channel"), h("select", { onchange: change }, h("option", { value: "" }, "All channels"),
    me.channels.map((channel) => h("option", { value: channel.id, selected: channel.id === value }, channelText(channel)))));
}

function add(list, items) {
  for (const each of items) {
    const day = dayOf(each.started_at);
    if (list.dataset.day !== day) {
      list.dataset.day = day;
      list.append(h("h2", { class: "day-head" }, dayName(day)));
    }
    list.append(row(each));
  }
}

function row(each) {
  return h("article", { class: "card talk" },
    h("div", { class: "row apart" },
      h("h3", { class: "clamp" }, h("a", { class: "talk-link", href: conversationAddress(each.id) }, each.topic || "Without a topic")),
      h("span", { class: "number" }, money(each.cost_usd))),
    h("div", { class: "row muted" }, at(each.started_at), each.channel.room ? chip("room") : channelChip(each.channel), each.theme !== each.channel.name && chip(each.theme),
      h("span", null, `${several(each.rounds, "round")}, ${several(each.messages, "message")}${each.skips ? `, ${each.skips} skipped` : ""}`)),
    h("div", { class: "row apart" }, h("span", { class: "row" }, ordered(each).map((agent) => agentChip(agent))), h("small", null, ending(each))));
}

// The agent who opened it comes first.
const ordered = ({ agents, starter }) => [...agents].sort((one, other) => (other === starter) - (one === starter));

export function ending(each) {
  if (each.ended_text) return `ended: ${each.ended_text}`;
  if (each.ended_at) return ["ended ", when(each.ended_at)];
  return Date.now() / 1000 - each.started_at < 6 * 3600 ? "it may still be running" : "its end wasn't recorded";
}
