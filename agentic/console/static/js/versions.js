// Other versions of a bot's message: what another model or persona would have said. Nothing is posted; they are here until
// the page is reloaded. One goes from version to version with the arrows, or by a swipe.
import { agentName, h } from "./dom.js";
import { money } from "./format.js";
import { openPopover } from "./popover.js";
import { turnOf } from "./why.js";

const SWIPE = 45; // pixels
const versions = new Map(); // message → { shown, list: [{ who, text, cost }] }; 0 is what was posted

// The button that makes one. `page.repaint(message)` shows the message again.
export function versionButton(message, page) {
  if (!message.author.agent || message.notice || message.growing) return null;
  return h("button", { type: "button", class: "quiet icon", "aria-label": "Say it differently", title: "What would another model or persona say? Nothing is posted", "aria-haspopup": "dialog", onclick: (event) => make(event.currentTarget, message, page) }, "⟳");
}

function make(button, message, page) {
  openPopover(button, "Another version", async (panel) => {
    const [turn, { decided, replayForm }] = await Promise.all([turnOf(message), import("./replay.js")]);
    if (!turn.has_page) throw new Error("Turns aren't recorded here (RECORD_DAYS is 0), so this one can't be repeated.");
    return [h("p", { class: "muted" }, "Another model or persona gets the same prompt. You see its answer in place of the message. Nothing is posted."),
      await replayForm(turn, (answer, wish) => keep(panel, message, page, answer, wish, decided))];
  }, "version-panel");
}

function keep(panel, message, page, { new: made, problem }, wish, decided) {
  if (!made) return h("p", { class: "problem" }, problem);
  const says = made.decision ? made.decision.text : made.text;
  const kept = versions.get(message.id) || { shown: 0, list: [] };
  kept.list.push({ who: wish.persona ? `${agentName(wish.persona)}, with ${made.model}` : made.model, text: says || `(It ${decided(made.decision)}.)`, cost: made.cost_usd });
  kept.shown = kept.list.length;
  versions.set(message.id, kept);
  panel.hidePopover();
  page.repaint(message);
  return null;
}

// The text to show: a version's, or the message's own.
export function shownText(message) {
  const kept = versions.get(message.id);
  return kept?.shown ? kept.list[kept.shown - 1].text : message.text;
}

// "‹ 2 of 3 ›", whose it is and what it cost; null for a message with one version.
export function versionBar(message, page) {
  const kept = versions.get(message.id);
  if (!kept) return null;
  const { shown, list: { length, [shown - 1]: version } } = kept;
  const step = (by) => h("button", { type: "button", class: "quiet icon", dataset: { step: by }, "aria-label": by < 0 ? "Earlier version" : "Later version", disabled: shown + by < 0 || shown + by > length, onclick: () => turn(message, page, by) }, by < 0 ? "‹" : "›");
  const words = version ? [h("b", null, version.who), ` · ${version.cost ? money(version.cost) : "free"} · not posted`] : "as it was posted";
  return h("div", { class: "version-bar", role: "group", "aria-label": "Versions" }, step(-1), h("span", { class: "number" }, `${shown + 1} of ${length + 1}`), step(1), h("small", null, words));
}

function turn(message, page, by) {
  const kept = versions.get(message.id);
  kept.shown = Math.max(0, Math.min(kept.list.length, kept.shown + by));
  const node = page.repaint(message);
  (node.querySelector(`[data-step="${by}"]:not(:disabled)`) || node.querySelector("[data-step]:not(:disabled)")).focus({ preventScroll: true });
}

// A finger that goes sideways over a message with versions turns to the next.
export function swipes(node, message, page) {
  if (!versions.has(message.id)) return;
  let began = null;
  node.addEventListener("touchstart", ({ changedTouches: [{ clientX, clientY }] }) => { began = { clientX, clientY }; }, { passive: true });
  node.addEventListener("touchend", ({ changedTouches: [{ clientX, clientY }] }) => {
    const x = clientX - began.clientX, y = clientY - began.clientY;
    if (Math.abs(x) > SWIPE && Math.abs(x) > 2 * Math.abs(y)) turn(message, page, x < 0 ? 1 : -1);
  });
}
