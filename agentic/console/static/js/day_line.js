// A day as a line from its first to its last hour, with the times of conversations on it. A time that is still to come can
// be dragged along the line, or moved with the arrow keys.
import { h, svg } from "./dom.js";
import { clock } from "./format.js";

const STEP = 300; // seconds to which a moved time is rounded
const HOUR = 3600;
const LANE_HOURS = 2.6; // two times that are closer stand in different lanes, so that they don't touch on a phone
const KEYS = { ArrowLeft: -STEP, ArrowRight: STEP, ArrowDown: -STEP, ArrowUp: STEP, PageDown: -HOUR, PageUp: HOUR };

// `day` is GET /api/schedule; `name(slot)` says why its time was chosen; `move(slot, time)` moves it to unix seconds.
export function dayLine(day, name, move) {
  const length = day.until - day.from, now = Date.now() / 1000;
  const place = (at) => `${(100 * Math.min(Math.max(at - day.from, 0), length)) / length}%`;
  const parts = day.items.map(({ part }) => part).filter(Boolean);
  const hours = Array.from({ length: Math.floor(length / HOUR) + 1 }, (_, n) => day.from + n * HOUR);
  const lanes = [];
  const track = h("div", { class: "day-track" },
    parts.length > 0 && h("span", { class: "day-active", title: "the active hours", style: { left: place(Math.min(...parts.map(([from]) => from))), right: `calc(100% - ${place(Math.max(...parts.map(([, to]) => to)))})` } }),
    hours.map((at, n) => h("i", { class: n % 3 ? "" : "full", style: { left: place(at) } })),
    day.conversations.map((talk) => h("span", { class: "day-talk", title: `${clock(talk.started_at)} to ${talk.ended_at ? clock(talk.ended_at) : "now"}: ${talk.topic || talk.theme}`,
      style: { left: place(talk.started_at), width: `calc(${place(day.from + (talk.ended_at || now) - talk.started_at)})` } })),
    now >= day.from && now <= day.until && h("span", { class: "day-now", style: { left: place(now) } }, h("span", null, "now")),
    day.items.map((slot) => {
      if (slot.done) return h("span", { class: "day-slot done", title: `${clock(slot.at)}, past or skipped`, style: { left: place(slot.at) } });
      let lane = lanes.findIndex((last) => slot.at - last >= LANE_HOURS * HOUR);
      if (lane < 0) lane = lanes.length;
      lanes[lane] = slot.at;
      return openSlot(slot, lane, day, name(slot), place, () => track, move);
    }));
  track.style.setProperty("--lanes", Math.max(1, lanes.length));
  return h("div", { class: "day-plan" }, track,
    h("div", { class: "day-hours", "aria-hidden": "true" }, hours.filter((_, n) => n % 3 === 0).map((at, n) =>
      h("span", { class: n % 2 ? "rare" : "", style: { left: place(at) } }, clock(at)))));
}

function openSlot(slot, lane, day, why, place, track, move) {
  const first = () => Math.ceil((Date.now() / 1000 + 60) / STEP) * STEP, last = day.until - STEP;
  const label = h("span", { class: "slot-time" });
  const node = h("span", { class: "day-slot", role: "slider", tabindex: "0", "aria-valuemin": day.from, "aria-valuemax": last, title: why,
    style: { "--lane": lane } }, svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: "M4 5h16v11H9l-5 4z" })), label);
  let at = slot.at;
  const show = (value) => {
    at = value === slot.at ? value : Math.min(Math.max(Math.round(value / STEP) * STEP, first()), last);
    const moved = at !== slot.at;
    node.style.setProperty("left", place(at));
    node.classList.toggle("moved", moved);
    node.classList.toggle("late", at > day.until - 0.1 * (day.until - day.from)); // its time is shown left of it
    label.textContent = clock(at);
    node.setAttribute("aria-label", `Conversation at ${clock(slot.at)}. ${why}`);
    node.setAttribute("aria-valuenow", at);
    node.setAttribute("aria-valuetext", moved ? `${clock(at)}: Enter moves it there, Escape leaves it at ${clock(slot.at)}` : clock(at));
  };
  const commit = async () => {
    if (at === slot.at || node.ariaBusy) return;
    node.ariaBusy = "true";
    await move(slot, at);
    node.ariaBusy = null;
    if (node.isConnected) show(slot.at); // it was refused, or the page is about to show its new place
  };
  node.addEventListener("keydown", (event) => {
    if (event.key in KEYS) show(at + KEYS[event.key]);
    else if (event.key === "Enter") commit();
    else if (event.key === "Escape") show(slot.at);
    else return;
    event.preventDefault();
  });
  node.addEventListener("blur", () => node.ariaBusy || show(slot.at));
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    node.setPointerCapture(event.pointerId);
    node.dataset.from = event.clientX;
  });
  node.addEventListener("pointermove", (event) => {
    if (node.dataset.from === undefined) return;
    const by = event.clientX - Number(node.dataset.from);
    if (Math.abs(by) > 3 || at !== slot.at) show(slot.at + (by / track().clientWidth) * (day.until - day.from));
  });
  const drop = (kept) => () => {
    if (node.dataset.from === undefined) return;
    delete node.dataset.from;
    if (kept) commit();
    else show(slot.at);
  };
  node.addEventListener("pointerup", drop(true));
  node.addEventListener("pointercancel", drop(false));
  show(slot.at);
  return node;
}
