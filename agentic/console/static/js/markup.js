// A message's text as Discord shows it: bold, italic, code, spoilers, links, mentions. Builds nodes; text stays text.
import { at, coloured, h, when } from "./dom.js";
import { dateTime } from "./format.js";
import { me } from "./me.js";

// A code block ends at as many marks as it began with, or more. Tildes need lines of their own. Exported pages
// (agentic/record/export/render.py) have the same pattern.
const FENCE = new RegExp([
  "(?<ticks>`{3,9})(?:[\\w+#.-]{1,20}\\n)?(?<code>.+?)\\k<ticks>`*",
  "^(?<tildes>~{3,9})[\\w+#.-]*[ \\t]*\\n(?<lines>.*?)^\\k<tildes>~*[ \\t]*$",
].join("|"), "gsm");
const DEPTH = 6; // of one mark inside another
const JUMBO = 27; // as many emoji, alone, are shown large
const EMOJI = /\p{Extended_Pictographic}|\p{Regional_Indicator}{2}/gu;
const ONLY_EMOJI = /^(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\p{Regional_Indicator}|[\u200d\ufe0f\u20e3\s])+$/u;
const ADDRESS = "https?://[^\\s<>\"|]{1,1500}[^\\s<>\"|.,:;!?')\\]*_~]";
const MESSAGE = /^https:\/\/discord\.com\/channels\/\d+\/(\d+)\/(\d+)$/;
// The first alternative that matches at a place is used.
const INLINE = new RegExp([
  "\\\\(?<escaped>[\\\\*_~`|>#\\[\\]()@-])",
  "``(?<ticked>[^\\n]+?)``(?!`)",
  "`(?<code>[^`\\n]+)`",
  "\\|\\|(?<spoiler>.+?)\\|\\|",
  "\\*\\*(?<bold>.+?)\\*\\*(?!\\*)",
  "__(?<under>.+?)__(?!_)",
  "~~(?<strike>.+?)~~",
  "\\*(?<star>[^\\s*](?:[^*]*[^\\s*])?)\\*(?!\\*)",
  "(?<![\\p{L}\\p{N}_])_(?<italic>[^\\s_](?:[^_]*[^\\s_])?)_(?![\\p{L}\\p{N}_])",
  `\\[(?<label>[^\\]\\n]{1,300})\\]\\(<?(?<target>${ADDRESS}/?)>?\\)`,
  `<(?<bare>${ADDRESS}/?)>`,
  `(?<address>${ADDRESS}/?)`,
  "<t:(?<time>\\d{1,11})(?::(?<form>[tTdDfFR]))?>",
].join("|"), "su");
const TAGS = { bold: "strong", under: "u", strike: "s", star: "em", italic: "em" };

// `names`: Map of shown name → agent's key, or null for a person: these are mentions after an @.
export function formatted(text, names) {
  const nodes = [];
  let end = 0;
  for (const fence of [...text.matchAll(FENCE), null]) {
    const plain = text.slice(end, fence?.index).replace(end ? /^\n/ : /^/, "").replace(fence ? /\n$/ : /$/, "");
    if (plain) nodes.push(...blocks(plain, names));
    if (!fence) break;
    const code = (fence.groups.code ?? fence.groups.lines).replace(/^\n|\s+$/g, "");
    nodes.push(h("pre", { dir: "ltr" }, h("code", null, code)));
    end = fence.index + fence[0].length;
  }
  return nodes;
}

export function isJumbo(text) {
  const emoji = text.length < 200 && ONLY_EMOJI.test(text) ? (text.match(EMOJI) || []).length : 0;
  return emoji > 0 && emoji <= JUMBO;
}

// Lines with a meaning of their own; the others are kept together.
function blocks(text, names) {
  const nodes = [];
  let run = [], quoted = [];
  const inline = (words) => inlined(words, mentions(names), DEPTH);
  const flush = () => {
    if (run.length) nodes.push(h("p", { dir: "auto" }, inline(run.join("\n"))));
    if (quoted.length) nodes.push(h("blockquote", { dir: "auto" }, inline(quoted.join("\n"))));
    run = [];
    quoted = [];
  };
  const lines = text.split("\n");
  for (let index = 0; index < lines.length; index++) {
    const [, heading, title] = lines[index].match(/^(#{1,3}) +(\S.*)$/) || [];
    const [, small] = lines[index].match(/^-# +(.*)$/) || [];
    const [, indent, item] = lines[index].match(/^( *)[-*] +(\S.*)$/) || [];
    const [, quote] = lines[index].match(/^> ?(.*)$/) || [];
    if (lines[index].startsWith(">>> ")) {
      flush();
      quoted = [lines[index].slice(4), ...lines.slice(index + 1)];
      break;
    }
    if (quote !== undefined) {
      if (run.length) flush();
      quoted.push(quote);
      continue;
    }
    if (quoted.length) flush();
    if (heading === undefined && small === undefined && item === undefined) {
      run.push(lines[index]);
      continue;
    }
    flush();
    if (heading) nodes.push(h("p", { class: `heading h${heading.length}`, dir: "auto" }, inline(title)));
    else if (small !== undefined) nodes.push(h("p", { class: "small", dir: "auto" }, inline(small)));
    else nodes.push(h("p", { class: indent.length > 1 ? "item deeper" : "item", dir: "auto" }, inline(item)));
  }
  flush();
  return nodes;
}

function inlined(text, mention, depth) {
  const nodes = [];
  let rest = text;
  for (let found; depth > 0 && (found = INLINE.exec(rest)); rest = rest.slice(found.index + found[0].length)) {
    nodes.push(...mention(rest.slice(0, found.index)), node(found.groups, found[0], (words) => inlined(words, mention, depth - 1)));
  }
  nodes.push(...mention(rest));
  return nodes;
}

function node(groups, whole, inner) {
  if (groups.escaped) return groups.escaped;
  if (groups.code || groups.ticked) return h("code", { dir: "auto" }, groups.code || groups.ticked.trim());
  if (groups.spoiler) return spoiler(inner(groups.spoiler));
  if (groups.target) return link(groups.target, inner(groups.label));
  if (groups.bare || groups.address) return link(groups.bare || groups.address, groups.bare || groups.address);
  if (groups.time) return stamp(Number(groups.time), groups.form, whole);
  const [kind, tag] = Object.entries(TAGS).find(([name]) => groups[name] !== undefined);
  return h(tag, null, inner(groups[kind]));
}

// Its title has the address of a link with another name. Local mode has no Discord, so a link to a
// message leads to its place on this page.
function link(address, words) {
  const [, channel, message] = (me.local && MESSAGE.exec(address)) || [];
  if (channel) return h("a", { href: `#/live/${channel}?message=${message}` }, words === address ? "the message" : words);
  return h("a", { href: address, title: address, target: "_blank", rel: "noopener noreferrer nofollow" }, words);
}

function spoiler(words) {
  const shown = h("span", { class: "spoiler", role: "button", tabindex: "0", "aria-expanded": "false", "aria-label": "Spoiler, hidden" }, h("span", { "aria-hidden": "true" }, words));
  const show = (event) => {
    if (shown.classList.contains("open") || (event.key && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    event.stopPropagation();
    shown.classList.add("open");
    for (const name of ["role", "tabindex", "aria-expanded", "aria-label"]) shown.removeAttribute(name);
    shown.firstChild.removeAttribute("aria-hidden");
  };
  shown.addEventListener("click", show);
  shown.addEventListener("keydown", show);
  return shown;
}

function stamp(unix, form, whole) {
  if (unix > 8e9) return whole;
  if (form === "R") return when(unix);
  return form === "t" || form === "T" ? at(unix) : h("time", null, dateTime(unix));
}

// A function: text → its mentions as marked nodes, the rest as text.
function mentions(names) {
  const known = [...names.keys(), "everyone", "here"].sort((a, b) => b.length - a.length).map(escaped);
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}_])@(${known.join("|")})(?![\\p{L}\\p{N}_])`, "u");
  return (text) => text.split(pattern).map((part, index) => {
    if (index % 2 === 0) return part;
    return coloured(h("span", { class: "mention" }, `@${part}`), names.get(part));
  }).filter((part) => part !== "");
}

const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");

// Shown names → agents, for formatted().
export function knownNames(people = []) {
  return new Map([...people.map((name) => [name, null]), ...Object.entries(me.names).map(([key, name]) => [name, key])]);
}

// A server's own emoji is a picture of Discord's, which the page doesn't load: its name is shown instead.
export const shownEmoji = (emoji) => (/^<a?:(\w+):\d+>$/.exec(emoji) || [null, null])[1]?.replace(/^|$/g, ":") || emoji;
