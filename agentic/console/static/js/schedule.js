// Today's schedule, to be changed, and what owners and moderators did.
import { scheduleActions } from "./actions.js";
import { get } from "./api.js";
import { agentChip, card, channelLink, empty, fill, h, olderButton, table, when } from "./dom.js";
import { me } from "./me.js";
import { personLink } from "./turn_words.js";

export async function render(root, { signal }) {
  const times = h("div");
  const past = h("div", { class: "stack" });
  const show = async () => {
    const [schedule, actions] = await Promise.all([get("api/schedule", {}, { signal }), me.recorded ? actionsPage(signal) : null]);
    fill(times, scheduleActions(schedule.items));
    fill(past, actions ? list(actions, signal) : empty("Nothing is recorded here (RECORD_DAYS=0)."));
  };
  await show();
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Schedule")),
    card(`Today's conversations (${me.timezone})`, times), card("What owners and moderators did", past));
  const again = () => show().catch(() => {}); // the toast of the action has said what happened
  window.addEventListener("acted", again);
  return () => window.removeEventListener("acted", again);
}

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
  const rows = page.items.map(row);
  const more = h("div", { class: "stack" }, page.next && olderButton(async () => {
    fill(more, list(await actionsPage(signal, page.next), signal));
  }));
  return [table("Actions", ["When", "Who", "What", "Where", "Result"], rows), more];
}

function row(action) {
  const where = [action.channel_id && channelLink(action.channel_id), action.agent && agentChip(action.agent)].filter(Boolean);
  const came = [action.outcome?.replaceAll("_", " "), action.detail].filter(Boolean).join(": ");
  const who = { console: "the console", forgotten: "someone who used /forget me" }[action.by] || personLink(action.by, action.by_name);
  return [when(action.at), who, action.what,
    where.length ? h("span", { class: "row" }, where) : "–", came || "–"];
}
