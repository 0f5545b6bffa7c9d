// Bars by day, stacked by agent, drawn with uPlot, which is loaded when the first plot is shown. A canvas says nothing
// to a screen reader: each plot stands above a table with the same numbers.

import { fill, h } from "./dom.js";
import { money } from "./format.js";

function loadPlots() {
  if (!document.querySelector("link[href$='uPlot.min.css']")) {
    document.head.append(h("link", { rel: "stylesheet", href: "./vendor/uPlot.min.css" }));
  }
  return import("../vendor/uPlot.min.js").then((module) => module.default);
}

// `labels`: one a bar. `series`: [{name, colour, values}], values in US dollars, as many as labels. Returns an element
// that draws itself and follows the width of its place and the colour scheme.
export function stackedBars(labels, series) {
  const place = h("div", { class: "plot", "aria-hidden": "true" });
  let plot = null;
  const draw = async () => {
    const uPlot = await loadPlots();
    if (!place.isConnected || !place.clientWidth) return;
    plot?.destroy();
    plot = new uPlot(options(uPlot, labels, series, place), stacked(labels, series), place);
  };
  const follow = new ResizeObserver(() => {
    if (!place.isConnected) {
      end();
    } else if (!plot) {
      draw().catch(() => fill(place, h("p", { class: "muted" }, "The chart couldn't be loaded. The table below has the numbers.")));
    } else if (place.clientWidth && plot.width !== place.clientWidth) {
      plot.setSize({ width: place.clientWidth, height: plot.height });
    }
  });
  const scheme = matchMedia("(prefers-color-scheme: dark)");
  scheme.addEventListener("change", draw);
  function end() {
    follow.disconnect();
    scheme.removeEventListener("change", draw);
    plot?.destroy();
    plot = null;
  }
  follow.observe(place);
  return place;
}

// uPlot draws each series from zero, so the whole stack comes first and the lower ones are drawn over it.
function stacked(labels, series) {
  const sums = labels.map(() => 0);
  const layers = series.map(({ values }) => values.map((value, n) => (sums[n] += value)));
  return [labels.map((_, n) => n), ...layers.reverse()];
}

function options(uPlot, labels, series, place) {
  const { color: text, borderTopColor: line } = getComputedStyle(place);
  const font = "12px system-ui, sans-serif";
  const bars = uPlot.paths.bars({ size: [0.8, 60] });
  const layers = [...series].reverse();
  return {
    width: place.clientWidth,
    height: 220,
    cursor: { drag: { x: false, y: false }, points: { show: false }, y: false },
    scales: {
      x: { time: false, range: [-0.6, labels.length - 0.4] },
      y: { range: (_, low, high) => [0, Math.max(high * 1.08, 0.001)] },
    },
    axes: [
      { stroke: text, font, grid: { show: false }, ticks: { show: false }, size: 28, space: 64,
        incrs: [1, 2, 5, 7, 14, 30, 60], values: (_, places) => places.map((n) => labels[n] ?? "") },
      { stroke: text, font, grid: { stroke: line, width: 1 }, ticks: { show: false }, size: 60,
        values: (_, sums) => sums.map((sum) => money(sum)) },
    ],
    series: [
      { label: "Day", value: (_, n) => (n === null ? "–" : labels[n]) },
      ...layers.map(({ name, colour, values }) => ({
        label: name, fill: colour, stroke: colour, width: 0, paths: bars, points: { show: false },
        value: (_, sum, __, n) => (n === null ? "–" : money(values[n])),
      })),
    ],
  };
}
