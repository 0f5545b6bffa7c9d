// Bars by day, stacked, as elements of the page. Each bar can be pointed at, touched, and reached with the arrow keys; it
// then shows all its values, which are also its name for a screen reader.
import { fill, h } from "./dom.js";
import { cents, hundredths } from "./format.js";

const LINES = 4; // of the scale, about

// `bars`: [{ label, title, href, parts: [{ name, color, value }], about: [texts], ghost }], values as numbers; `ghost` is
// what a bar is expected to grow by. `line` is { value, text }, or null. `text` writes a value.
export function stackedBars(name, bars, text, line = null) {
  const sums = bars.map((bar) => bar.parts.reduce((sum, { value }) => sum + value, 0));
  const highest = Math.max(...bars.map((bar, n) => sums[n] + (bar.ghost || 0)), 0);
  const fits = line && line.value <= highest * 4;
  const { top, step } = scaleOf(Math.max(highest, fits ? line.value : 0));
  const scaleText = step >= 0.01 ? cents : hundredths;
  const share = (value) => `${(100 * value) / top}%`;
  const tip = h("div", { class: "plot-tip", "aria-hidden": "true", hidden: true });
  const columns = bars.map((bar, n) => column(bar, sums[n], share, text));
  const plot = h("div", { class: "plot-bars" }, columns);
  let current = -1;

  const choose = (n) => {
    columns[current]?.classList.remove("on");
    current = n;
    tip.hidden = n < 0;
    if (n < 0) return;
    columns[n].classList.add("on");
    fill(tip, tipOf(bars[n], sums[n], text));
    const { offsetLeft: left, offsetWidth: width } = columns[n], before = left + width / 2 > plot.clientWidth / 2;
    tip.style.setProperty("left", `${before ? Math.max(0, left - tip.offsetWidth - 8) : Math.min(left + width + 8, plot.clientWidth - tip.offsetWidth)}px`);
  };
  columns.forEach((node, n) => {
    node.tabIndex = n === bars.length - 1 ? 0 : -1;
    let wasOn = true; // a first touch shows the values, a second one opens the day
    node.addEventListener("pointerdown", (event) => { wasOn = event.pointerType !== "touch" || current === n; });
    node.addEventListener("click", (event) => { if (!wasOn) event.preventDefault(); });
    node.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && choose(n));
    node.addEventListener("focus", () => choose(n));
    node.addEventListener("blur", () => choose(-1));
    node.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: n - 1, ArrowRight: n + 1, Home: 0, End: bars.length - 1 }[event.key];
      if (to === undefined || !columns[to]) return;
      event.preventDefault();
      node.tabIndex = -1;
      columns[to].tabIndex = 0;
      columns[to].focus();
    });
  });
  plot.addEventListener("pointerleave", () => choose(columns.indexOf(document.activeElement)));

  const lines = Array.from({ length: Math.round(top / step) }, (_, n) => (n + 1) * step);
  const every = Math.ceil(bars.length / 8);
  return h("div", { class: "plot", role: "group", "aria-label": name },
    h("div", { class: "plot-field" },
      h("div", { class: "plot-scale", "aria-hidden": "true" }, lines.map((value) => h("span", { style: { bottom: share(value) } }, scaleText(value)))),
      fits && h("div", { class: "plot-line", "aria-hidden": "true", style: { bottom: share(line.value) } }, h("span", null, line.text)),
      plot, tip),
    h("div", { class: "plot-labels", "aria-hidden": "true" }, bars.map((bar, n) => label(bar, bars.length - 1 - n, every))),
    line && !fits && h("p", { class: "muted" }, `${line.text}: above this chart.`));
}

// Of every few bars, so that the labels don't touch; a phone has room for half of them.
const label = (bar, fromEnd, every) =>
  h("span", { class: fromEnd % (2 * every) ? "rare" : fromEnd % (4 * every) ? "rarer" : "" }, fromEnd % every ? "" : bar.label);

function column(bar, sum, share, text) {
  const values = bar.parts.filter(({ value }) => value > 0).map(({ name, value }) => `${name} ${text(value)}`);
  return h("a", { class: "plot-bar", href: bar.href, "aria-label": [`${bar.title}: ${text(sum)}`, ...values, ...bar.about].join(", ") },
    bar.parts.map(({ value, color }) => value > 0 && h("span", { style: { height: share(value), background: color } })),
    bar.ghost > 0 && h("span", { class: "ghost", style: { height: share(bar.ghost) } }));
}

const tipOf = (bar, sum, text) => [
  h("b", null, bar.title), h("b", { class: "number" }, text(sum)),
  bar.parts.filter(({ value }) => value > 0).map(({ name, value, color }) =>
    [h("span", null, h("i", { style: { background: color } }), name), h("span", { class: "number" }, text(value))]),
  bar.about.map((line) => h("small", null, line)),
];

// The end of the scale and the distance of its lines: 1, 2, or 5 times a power of ten.
function scaleOf(highest) {
  const rough = Math.max(highest * 1.05, 0.0001) / LINES;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((each) => each * power >= rough * 0.75) * power; // up to six lines: little of the chart stays empty
  return { step, top: Math.ceil((highest * 1.02 || step) / step) * step };
}
