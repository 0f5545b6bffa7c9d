// A bot's last turns as a strip of bars, oldest first, each a link to its turn. One bar is reached by Tab, the others by
// the arrow keys.
import { h } from "./dom.js";
import { ago, money, percent, seconds } from "./format.js";
import { OUTCOMES, turnAddress } from "./turn_words.js";

const BARS = 90;
// outcome: how its bar looks; a turn that was refused met a limit
const KINDS = { posted: "good", reacted: "good", written: "good", skipped: "quiet", refused: "warn", failed: "bad", timed_out: "bad" };

export function beatStrip({ agent, beats }) {
  if (!beats.length) return h("div", { class: "beats" }, h("p", { class: "muted" }, "It hasn't taken a turn yet."));
  const bars = beats.map((beat, n) => bar(agent, beat, n === beats.length - 1));
  const empty = Array.from({ length: Math.max(0, BARS - beats.length) }, () => h("i"));
  const onkeydown = (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, Home: -BARS, End: BARS }[event.key];
    const now = bars.indexOf(document.activeElement);
    if (!step || now < 0) return;
    event.preventDefault();
    const next = bars[Math.max(0, Math.min(bars.length - 1, now + step))];
    bars[now].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  };
  const bad = beats.filter((beat) => ["bad", "warn"].includes(KINDS[beat.outcome])).length;
  const words = `${percent(1 - bad / beats.length)} went well`;
  return h("div", { class: "beats" },
    h("div", { class: "beat-bars", role: "group", "aria-label": `The last ${beats.length} turns: ${words}. Arrow keys move between them.`, onkeydown }, empty, bars),
    h("div", { class: "row apart" }, h("small", null, ago(beats[0].at)), h("small", { title: `of its last ${beats.length} turns` }, words), h("small", null, ago(beats.at(-1).at))));
}

function bar(agent, beat, isLast) {
  const [outcome] = OUTCOMES[beat.outcome] || [beat.outcome || "Unknown"];
  const words = [outcome, ago(beat.at), seconds(beat.seconds), beat.cost_usd ? money(beat.cost_usd) : "free", beat.reason_text].filter(Boolean).join(" · ");
  return h("a", { class: KINDS[beat.outcome] || "quiet", href: turnAddress({ agent, id: beat.id }), title: words, "aria-label": words, tabindex: isLast ? "0" : "-1" });
}
