// Compared texts, line by line. In a line that was changed, the part that differs is marked.
import { h } from "./dom.js";

const NAMES = { "+": "added", "-": "removed" };

// `lines` are { sign, text }: "+" new, "-" removed, " " the same, "@" omitted lines.
export function diffView(lines) {
  const nodes = [];
  for (let n = 0; n < lines.length; n++) {
    const removed = run(lines, n, "-"), added = run(lines, n + removed.length, "+");
    if (removed.length && removed.length === added.length) { // as many new lines as old ones: each replaces one
      const pairs = removed.map((line, at) => different(line.text, added[at].text));
      removed.forEach((line, at) => nodes.push(diffLine(line, pairs[at][0])));
      added.forEach((line, at) => nodes.push(diffLine(line, pairs[at][1])));
      n += 2 * removed.length - 1;
    } else nodes.push(diffLine(lines[n], lines[n].text));
  }
  return h("pre", { class: "diff", dir: "auto", tabindex: "0" }, nodes);
}

function run(lines, from, sign) {
  let end = from;
  while (lines[end]?.sign === sign) end++;
  return lines.slice(from, end);
}

// Both texts with the words marked between their common beginning and their common end.
function different(old, now) {
  const [before, after] = [words(old), words(now)];
  const least = Math.min(before.length, after.length);
  let start = 0, end = 0;
  while (start < least && before[start] === after[start]) start++;
  while (end < least - start && before.at(-1 - end) === after.at(-1 - end)) end++;
  return [before, after].map((text) => [
    text.slice(0, start).join(""),
    start + end < text.length && (start || end) ? h("mark", null, text.slice(start, text.length - end).join("")) : text.slice(start, text.length - end).join(""),
    text.slice(text.length - end).join(""),
  ]);
}

const words = (text) => text.match(/\s+|[\p{L}\p{N}]+|[^\s\p{L}\p{N}]/gu) || [];

function diffLine({ sign }, text) {
  if (sign === "@") return h("span", { class: "diff-gap" }, "⋯\n");
  const kind = NAMES[sign] || "same";
  return h("span", { class: `diff-${kind}` }, kind !== "same" && h("span", { class: "hidden" }, `${kind}: `), `${sign} `, text, "\n");
}
