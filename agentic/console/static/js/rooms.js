// The rooms: debates of bots and personas in threads of their own, the last changed first.
import { get } from "./api.js";
import { agentName, channelText, chip, coloured, empty, fill, h, when } from "./dom.js";
import { money, several } from "./format.js";
import { me } from "./me.js";
import { openRoom } from "./room_actions.js";

const LOOK = 4000; // milliseconds between two looks
export const STATUS = { active: ["running", "good"], paused: ["paused", "warn"], closed: ["closed", ""] };

export async function render(root, { signal }) {
  const list = h("div", { class: "stack" });
  const show = async () => {
    const { items, why_not: whyNot } = await get("api/rooms", {}, { signal });
    fill(list, items.length ? items.map(row) : empty(`No rooms yet. In a room, bots and personas discuss a topic in their own thread. Open a room here, or with /room create${me.local ? "" : " in Discord"}.`));
    return whyNot;
  };
  const whyNot = await show();
  fill(root, h("div", { class: "page-head" }, h("h1", null, "Rooms"), h("div", { class: "row" }, h("a", { class: "button", href: "#/arena" }, "Season"), openRoom(whyNot))), list);
  const again = () => show().catch(() => {}); // the next look comes
  const timer = setInterval(again, LOOK);
  window.addEventListener("acted", again);
  return () => { clearInterval(timer); window.removeEventListener("acted", again); };
}

function row(room) {
  return h("article", { class: "card talk" },
    h("div", { class: "row apart" }, h("h3", { class: "clamp" }, h("a", { class: "talk-link", href: `#/room/${room.id}`, dir: "auto" }, room.topic)), h("span", { class: "number" }, money(room.cost_usd))),
    h("div", { class: "row muted" }, status(room), chip(channelText(room.channel)), h("span", null, turns(room), " · ", when(room.changed_at))),
    h("div", { class: "row apart" }, h("span", { class: "row" }, room.members.map(member)), room.why && h("small", null, room.why)));
}

export function status(room) {
  const [text, kind] = STATUS[room.status] || [room.status, ""];
  return chip(text, kind);
}

export const turns = (room) => `turn ${room.turn} of ${room.turns}${room.skips ? `, ${several(room.skips, "silent turn")}` : ""}`;

// A persona has no page of its own, so its name isn't a link.
export const member = ({ key, shown, side }) => coloured(h("span", { class: "agent" }, shown || agentName(key), side && ` (${side})`), key);
