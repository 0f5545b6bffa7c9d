// One message of the live page, and what may be done with it.
import { agentName, at, avatar, coloured, h } from "./dom.js";
import { bytes, dateTime, dayOf, percent, several } from "./format.js";
import { openCard } from "./live_card.js";
import { formatted, isJumbo, shownEmoji } from "./markup.js";
import { shownText, swipes, versionBar, versionButton } from "./versions.js";
import { whyButton } from "./why.js";

const TOGETHER = 300; // seconds in which an author's messages are one group
const PEOPLE = ["#3b82c4", "#b0652b", "#7a8b2a", "#9a56b5", "#c0507a", "#2f8f83", "#8a6d3b", "#5f6fc4"];
const PALETTE = ["👍", "❤️", "😂", "🔥", "😮", "😢", "🎉", "🤔", "👀", "👎", "🛑", "🫥"];

// Whether a message continues the group of the one before it.
function follows(message, before) {
  return Boolean(before) && before.author.id === message.author.id && before.author.name === message.author.name &&
    before.notice === message.notice && !message.reply_to && message.at - before.at < TOGETHER && dayOf(before.at) === dayOf(message.at);
}

// `page`: { names, person, find(id), show(id), reply(message), react(message, emoji, given), vote(message, answer, given), repaint(message) }
export function messageNode(message, before, page) {
  const grouped = follows(message, before);
  const agent = message.author.agent, name = agent ? agentName(agent) : message.author.name;
  const node = h("article", {
    class: `message${grouped ? " more" : ""}${message.growing ? " growing" : ""}`, tabindex: "-1",
    dataset: { id: message.id }, "aria-label": `${name}, ${dateTime(message.at)}`,
  });
  const text = shownText(message);
  paint(node, message);
  swipes(node, message, page);
  node.append(...[
    message.reply_to && replied(message.reply_to, page),
    paint(avatar(agent, name), message),
    h("div", { class: "message-head" }, h("b", null, agent ? h("button", { type: "button", class: "name", tabindex: "-1", onclick: (event) => openCard(event.currentTarget, agent) }, h("bdi", null, name)) : h("bdi", null, name)),
      message.author.kind === "stranger" && h("span", { class: "chip" }, "app"),
      message.notice && h("span", { class: "chip", title: `The program posted this with ${name}’s account` }, "notice"),
      at(message.at), !grouped && whyButton(message)),
    grouped && h("span", { class: "message-time", "aria-hidden": "true" }, at(message.at)),
    h("div", { class: `message-text${isJumbo(text) ? " jumbo" : ""}` }, formatted(text, page.names),
      !message.text && !message.files.length && !message.poll && h("p", { class: "muted" }, "A message without text"),
      message.growing && h("span", { class: "caret", "aria-label": "still writing" }),
      message.edited && !message.growing && h("small", { class: "edited" }, "(edited)")),
    versionBar(message, page),
    message.files.length > 0 && h("div", { class: "files" }, message.files.map((file) => fileNode(message, file))),
    message.poll && poll(message, page),
    page.session?.channels.get(message.id)?.parent && h("p", { class: "thread-link" }, h("a", { href: `#/live/${message.id}` }, "Open the thread")), // which has its first message's id
    isBallot(message) ? votes(message, page) : message.reactions.length > 0 && h("div", { class: "reactions" }, message.reactions.map((one) => reactionNode(message, one, page))),
    tools(message, page, grouped),
  ].filter(Boolean));
  return node;
}

function paint(node, message) {
  if (message.author.agent) return coloured(node, message.author.agent);
  const number = [...message.author.id].reduce((sum, digit) => sum * 7 + Number(digit), 0);
  node.style.setProperty("--agent", message.author.kind === "stranger" ? "#7d8590" : PEOPLE[number % PEOPLE.length]);
  return node;
}

function replied(id, page) {
  const target = page.find(id);
  const words = target ? snippet(target) : "an earlier message";
  const author = target && (target.author.agent ? agentName(target.author.agent) : target.author.name);
  const line = h("button", { class: "reply-line", disabled: !target, onclick: () => page.show(id) },
    h("span", { "aria-hidden": "true" }, "↱ "), author && h("b", null, h("bdi", null, author)), " ", h("span", { dir: "auto" }, words));
  return target ? paint(line, target) : line;
}

export function snippet(message) {
  const words = message.text.replace(/\|\|.+?\|\|/gs, "▒▒▒").replace(/[*_~`#>]+/g, "").replace(/\s+/g, " ").trim();
  return words.slice(0, 120) || (message.files.length ? message.files[0].name : "a message");
}

function fileNode(message, file) {
  const named = h("span", { class: "file" }, h("span", { "aria-hidden": "true" }, "📄 "), h("bdi", null, file.name), h("small", null, ` ${bytes(file.size)}`));
  if (!file.picture) return named;
  const address = `api/files/${message.id}/${file.id}`;
  const image = h("img", { src: address, alt: file.name, loading: "lazy", decoding: "async" });
  const link = h("a", { class: "picture", href: address, target: "_blank", rel: "noopener", title: file.name }, image);
  image.addEventListener("error", () => {
    named.append(h("small", null, " · the picture is no longer available"));
    link.replaceWith(named);
  });
  return link;
}

// A vote: a bot's notice, on which the bot itself has put what one can choose.
const isBallot = ({ notice, reactions, author }) => notice && reactions.length > 1 && reactions.every(({ by }) => by.includes(author.name));

// Its votes as bars, without the bot's own.
function votes(message, page) {
  return bars("Votes", message.reactions.map(({ emoji, count, by }) => {
    const mine = page.person !== null && by.includes(page.person);
    return {
      shown: h("span", { class: "vote-emoji" }, shownEmoji(emoji)), count: Math.max(0, count - 1), mine,
      title: by.filter((name) => name !== message.author.name).join(", "),
      choose: page.person !== null && (() => page.react(message, emoji, !mine)),
    };
  }));
}

// Discord's own poll, which only local mode has.
function poll(message, page) {
  const { question, answers, is_over: over } = message.poll;
  const choices = answers.map(({ text, votes: count, mine }) => ({ shown: h("bdi", null, text), count, mine, choose: !over && (() => page.vote(message, text, !mine)) }));
  return h("div", { class: "poll" }, h("b", { dir: "auto" }, question), bars("Answers", choices),
    h("small", null, over ? "This poll is over." : "Click an answer to give it, or once more to take it back."));
}

// What people chose, as bars. `choices`: { shown, count, mine, title, choose }; without `choose` nothing can be clicked.
function bars(label, choices) {
  const all = choices.reduce((sum, { count }) => sum + count, 0);
  return h("div", { class: "votes", role: "group", "aria-label": `${label}: ${several(all, "vote")}` }, choices.map(({ shown, count, mine, title, choose }) => {
    const share = all ? count / all : 0;
    const inside = [h("span", { class: "vote-bar", style: { width: `${share * 100}%` } }), shown, h("span", { class: "number" }, `${percent(share)} · ${several(count, "vote")}`)];
    const attributes = { class: `vote${mine ? " mine" : ""}`, title: title || null };
    if (!choose) return h("div", attributes, inside);
    return h("button", { ...attributes, type: "button", "aria-pressed": String(mine), onclick: choose }, inside);
  }));
}

function reactionNode(message, reaction, page) {
  const emoji = shownEmoji(reaction.emoji);
  const mine = page.person !== null && reaction.by.includes(page.person);
  const more = reaction.count - reaction.by.length;
  const by = [...reaction.by, ...(more > 0 ? [reaction.by.length ? `${more} more` : `${more}`] : [])].join(", ");
  const inside = [h("span", null, emoji), h("span", { class: "count" }, String(reaction.count))];
  const attributes = { class: "reaction", title: by, "aria-label": `${emoji}, ${reaction.count}: ${by}` };
  if (page.person === null || emoji !== reaction.emoji) return h("span", { ...attributes, role: "img" }, inside);
  return h("button", { ...attributes, "aria-pressed": String(mine), onclick: () => page.react(message, reaction.emoji, !mine) }, inside);
}

function tools(message, page, grouped) {
  const writes = page.person !== null, why = grouped && whyButton(message), version = versionButton(message, page);
  if (!writes && !why && !version) return null;
  return h("div", { class: "tools", role: "group", "aria-label": "Message" },
    writes && h("button", { class: "quiet icon", "aria-label": "React", title: "React", "aria-haspopup": "true", onclick: (event) => palette(event.currentTarget, message, page) }, "☺"),
    writes && h("button", { class: "quiet icon", "aria-label": "Reply", title: "Reply", onclick: () => page.reply(message) }, "↩"),
    version, why);
}

function palette(button, message, page) {
  document.querySelector(".palette")?.remove();
  const close = () => { box.remove(); document.removeEventListener("pointerdown", outside); };
  const outside = (event) => { if (!box.contains(event.target)) close(); };
  const choose = (emoji) => {
    close();
    button.focus();
    page.react(message, emoji, true);
  };
  const buttons = PALETTE.map((emoji) => h("button", { class: "quiet icon", "aria-label": `React with ${emoji}`, onclick: () => choose(emoji) }, emoji));
  const onkeydown = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 6, ArrowUp: -6 }[event.key];
    if (event.key === "Escape") { close(); button.focus(); }
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length].focus();
  };
  const box = h("div", { class: "palette", role: "group", "aria-label": "Reactions", onkeydown }, buttons);
  button.parentNode.append(box);
  document.addEventListener("pointerdown", outside);
  buttons[0].focus();
}
