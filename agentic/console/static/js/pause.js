// Whether all bots are paused: a button in the header of every page, and while they are paused a bar below it. Other tabs
// learn of it from this one at once, and of pauses by others (Discord, another machine) from the stream (main.js).
import { act, button, group, perhaps } from "./actions.js";
import { get } from "./api.js";
import { fill, h, svg } from "./dom.js";
import { me } from "./me.js";

const TITLE = "Pause all bots in every channel";
const TEXT = "Running conversations end. Until you resume all bots, they answer nobody in any channel or direct message, and nothing scheduled runs. A restart doesn't end the pause.";

const tabs = new BroadcastChannel("pause");
const root = group("All bots");
const bar = h("p", { class: "pause-bar", role: "status" });

// The button. The bar goes below `header`.
export function pauseAll(header) {
  header.after(bar);
  show();
  return root;
}

export const resumeAllButton = (text = "Resume all bots") => button(text, () => act("resume_all", {}), { class: "primary" });

// Takes over what somebody said about it; the event "paused" on window tells the page.
export function setPaused(paused) {
  if (paused === me.paused) return;
  me.paused = paused;
  show();
  window.dispatchEvent(new Event("paused"));
}

async function look() {
  const { paused } = await get("api/pause").catch(() => me); // the pages say that the console doesn't answer
  setPaused(paused);
}

function show() {
  document.body.classList.toggle("paused", me.paused);
  fill(bar, me.paused && ["All bots are paused.", resumeAllButton()]);
  const icon = svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: "M8 5v14M16 5v14" }));
  const pause = () => perhaps("pause", "Pause all bots?", h("p", null, TEXT), "Pause all", () => ({}));
  fill(root, !me.paused && button([icon, h("span", null, "Pause all")], pause, { class: "danger pause-all", title: TITLE, "aria-label": "Pause all" }));
}

tabs.addEventListener("message", look);
window.addEventListener("acted", async ({ detail }) => {
  if (!["pause", "resume_all", "end_order"].includes(detail.name)) return;
  await look();
  tabs.postMessage("changed");
});
