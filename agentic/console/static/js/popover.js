// A panel beside the button that opened it; on a phone, at the bottom of the screen. It closes with Escape, or by a click
// outside, and the button then has the focus again.
import { fill, h } from "./dom.js";

const GAP = 6, EDGE = 8; // pixels to the button, to the window's edge
let number = 0;

// Opens it with `name` as its heading. `build(panel)` may be async; it returns what the panel shows, or throws.
export async function openPopover(button, name, build, kind = "") {
  const id = `popover-${++number}`;
  const body = h("div", { class: "stack" }, h("p", { class: "muted" }, "Loading…"));
  const panel = h("div", { class: `popover ${kind}`, popover: "auto", role: "dialog", "aria-labelledby": id },
    h("div", { class: "popover-head" }, h("h2", { id, tabindex: "-1" }, name),
      h("button", { type: "button", class: "quiet icon", "aria-label": "Close", onclick: () => panel.hidePopover() }, "×")),
    body);
  const leave = () => panel.hidePopover();
  const place = () => beside(panel, button);
  panel.addEventListener("toggle", ({ newState }) => {
    if (newState !== "closed") return;
    removeEventListener("hashchange", leave);
    removeEventListener("resize", place);
    button.removeAttribute("aria-expanded");
    panel.remove();
  });
  document.body.append(panel);
  panel.showPopover();
  addEventListener("hashchange", leave);
  addEventListener("resize", place);
  button.setAttribute("aria-expanded", "true");
  place();
  panel.querySelector("h2").focus({ preventScroll: true });
  try {
    fill(body, await build(panel));
  } catch (error) {
    fill(body, h("p", { role: "alert" }, error.message));
  }
  place();
  return panel;
}

// Below the button if there is room, otherwise above it, and never beyond the window. The style sheet places it on phones.
function beside(panel, button) {
  if (!panel.isConnected || !button.isConnected) return;
  const at = button.getBoundingClientRect(), { width, height } = panel.getBoundingClientRect();
  const under = at.bottom + GAP, over = at.top - GAP - height;
  const top = under + height <= innerHeight - EDGE ? under : over >= EDGE ? over : Math.max(EDGE, innerHeight - EDGE - height);
  panel.style.setProperty("--x", `${Math.max(EDGE, Math.min(at.left, innerWidth - EDGE - width))}px`);
  panel.style.setProperty("--y", `${top}px`);
}
