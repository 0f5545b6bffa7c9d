// What one can begin in a channel: a conversation, a room, an arena. The box offers all of it as commands after a slash.
import { act, attempt, button, field, group, nextDialog, perhaps, select, startDialog, stopDialog } from "./actions.js";
import { channelName, h, toast } from "./dom.js";
import { me } from "./me.js";

const MINUTES = [["5", "5 minutes"], ["1", "a minute"], ["15", "15 minutes"], ["60", "an hour"]];
const MOST_QUESTION = 1900; // characters

// Two hidden bots answer a question, and people vote.
export function arenaDialog(channel, question = "") {
  const text = h("textarea", { name: "prompt", rows: 2, required: true, maxlength: MOST_QUESTION, placeholder: "Is a hot dog a sandwich?" });
  text.value = question;
  perhaps("arena", `Start an arena in ${channelName(channel)}`, [
    h("p", null, "Two bots answer without their names. People vote for the better answer, and then see who wrote it."),
    field("Question", text),
    field("Time to vote", select("minutes", MINUTES)),
  ], "Start", ({ prompt, minutes }) => ({ channel, prompt, minutes: Number(minutes) }));
}

// Its module is loaded when somebody opens a room: the live page has enough to load.
const roomDialog = async (given) => (await import("./room_actions.js")).openRoomDialog(given);

// Rooms and arenas belong to a channel, not to a thread.
const placeOf = (channel) => channel.parent || channel.id;

export function playButtons(channel) {
  return group(`Begin in #${channel.name}`,
    button("Open a room", () => roomDialog({ channel: placeOf(channel) })),
    button("Start an arena", () => arenaDialog(placeOf(channel))));
}

// [{ name, about, run(words, answers), takes(words) }]: what may be typed after a slash, besides the bots' own commands.
// `words` are what follows the name; `answers` shows something above the box. Commands without `about` aren't offered.
export function commandsOf(session, channel) {
  const { id } = channel, mutes = () => session.situation.mutes;
  const running = () => Boolean(session.situation.conversations[id]);
  const resume = () => act("resume", { channel: session.stopOf(channel)?.channel || id });
  return [
    { name: "start", about: "Start a conversation about a topic", run: (words) => startDialog(id, mutes(), words) },
    { name: "next", about: "Choose who speaks next", run: () => nextDialog(id, running(), mutes()) },
    { name: "end", about: "End the running conversation", run: () => act("end", { channel: id }) },
    { name: "room", about: "Open a room, where bots and personas debate", takes: (words) => !isRoomCommand(session, words), run: (words) => roomDialog({ channel: placeOf(channel), topic: words.replace(/^create\s*/i, "") }) },
    { name: "arena", about: "Have two hidden bots answer, and vote", run: (words) => arenaDialog(placeOf(channel), words) },
    { name: "stop", about: "Stop the bots here for a while", run: () => stopDialog(id) },
    { name: "resume", about: "Resume the bots here", run: resume },
    { name: "help", about: "See what you can type", run: (words, answers) => answers.show(help(session)) },
    { name: "fire", run: (words) => fire(session, channel, words) },
  ];
}

// Whether the bots take it: a command for a room that is there, or options by name, which the dialog doesn't read.
function isRoomCommand(session, words) {
  const [part] = words.toLowerCase().split(/\s/);
  return part === "create" ? /\s[a-z-]+:/i.test(words) : session.person.commands.some(({ name }) => name === `room ${part}`);
}

// As in the terminal: /fire, /fire story, /fire casual trivia
async function fire(session, channel, words) {
  const named = words.toLowerCase().split(/\s+/).filter(Boolean).map((word) => word.replace(/^#/, ""));
  const place = [...session.channels.values()].find(({ name }) => name.toLowerCase() === named[0]);
  const [theme = "", ...rest] = place ? named.slice(1) : named;
  if (rest.length || (theme && !me.themes.includes(theme))) return startDialog(channel.id, session.situation.mutes, words);
  const { id } = place || channel;
  try {
    await attempt("start", { channel: id, ...(theme && { theme }) });
    location.hash = `#/live/${id}`;
  } catch (error) {
    toast(error.message, "bad");
  }
}

function help({ person }) {
  const [bot] = person.mentions, some = (name) => person.commands.some((each) => each.name === name);
  const lines = [
    [`@${bot} hello`, "asks a bot, and it answers you. Two mentions ask two bots; @bots asks all of them"],
    ["I disagree!", "joins the running conversation, and the next bot answers you"],
    ["/start", "starts a conversation here. /fire story starts one in #story"],
    ["/room Tea or coffee?", "opens a room, where bots and personas debate your question"],
    ["/arena", "lets two hidden bots answer, and you vote"],
    ["/stop", "stops the bots here. /resume lets them speak again"],
    some("why") && ["/why", "says why a bot wrote its last message. /why-not says why a bot is silent"],
    ["/", "lists everything else, such as /bots status"],
    ["//hello", "posts a line that begins with /"],
  ];
  return h("dl", { class: "facts" }, lines.filter(Boolean).map(([what, why]) => [h("dt", null, h("b", null, what)), h("dd", null, why)]));
}
