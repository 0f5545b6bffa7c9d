// Buttons and dialogs for rooms. They use the same actions as other pages (actions.js).
import { act, button, field, group, perhaps, select } from "./actions.js";
import { get } from "./api.js";
import { channelText, chip, fill, h, toast } from "./dom.js";
import { me } from "./me.js";

const USUAL = 4; // members that are chosen at first, as many for each side of a debate
const ARCHIVES = { 60: "an hour", 1440: "a day", 4320: "three days", 10080: "a week" };

// For the head of a room. `room` is as in /api/rooms/{thread}.
export function roomActions(room) {
  const { id, status, members } = room;
  const active = status === "active";
  return group(`Actions for the room ${room.topic}`,
    active && button("Next speaker", () => choose("next_in_room", "Next speaker", room, [{ key: "", shown: "whose turn it is" }, ...members])),
    room.shared ? button("Stop sharing", () => act("unshare_room", { room: id })) : button("Share", () => share(room)),
    button("Add", () => choose("add_to_room", "Who joins?", room, room.others.filter((seat) => !seat.why_not))),
    button("Remove", () => choose("remove_from_room", "Who leaves?", room, members)),
    active && button("Pause", () => act("pause_room", { room: id })),
    !active && button("Resume", () => resume(room), { class: "primary" }),
    status !== "closed" && button("Close", () => close(room), { class: "danger" }));
}

// "Open a room" if a bot can make its thread; otherwise the reason why none can.
export function openRoom(whyNot) {
  if (whyNot) return h("p", { class: "muted" }, `You can't open a room from here: ${whyNot}.`);
  return button("Open a room", () => openRoomDialog(), { class: "primary" });
}

function choose(name, title, room, agents) {
  if (!agents.length) return toast("There's nobody to choose from.");
  perhaps(name, title, field("Who", select("agent", agents.map((one) => [one.key, one.shown]))), title.replace("?", ""), ({ agent }) => ({ room: room.id, agent }));
}

function share(room) {
  perhaps("share_room", "Share its page?", h("p", null, "Anyone with the link can read the posts, people's messages with their names, the votes, and the closing card, without signing in. You can end this at any time."), "Share", () => ({ room: room.id }));
}

function close(room) {
  perhaps("close_room", "Close the room?", h("p", null, `This ends “${room.topic}”. You can resume it later.`), "Close it", () => ({ room: room.id }));
}

function resume(room) {
  const more = h("input", { name: "turns", type: "number", min: 1, max: 200, value: room.turn >= room.turns ? 10 : "", placeholder: "none" });
  perhaps("resume_room", "Resume the room", [h("p", null, `It's at turn ${room.turn} of ${room.turns}.`), field("More turns", more)], "Resume",
    ({ turns }) => ({ room: room.id, ...(turns && { turns: Number(turns) }) }));
}

// `given` fills fields in: { channel, topic }.
export async function openRoomDialog(given = {}) {
  const bounds = await get("api/new-room").catch((error) => toast(error.message, "bad"));
  if (!bounds) return;
  perhaps("open_room", "Open a room", fields(bounds, given), "Open", (values) => ({
    channel: values.channel, topic: values.topic, personas: chosen(bounds, values).join(", "), policy: values.policy, turns: Number(values.turns),
    archive: values.archive, audience: Number(values.audience || 0), rules: values.rules, goodbye_ends: Boolean(values.goodbye),
    theme: values.theme, pace: values.pace, format: values.format, title: values.title, moderator: values.moderator,
    judge: values.judge, poll: Boolean(values.poll),
  }), ({ thread }) => { location.hash = `#/live/${thread}`; });
}

const chosen = (bounds, values) => bounds.seats.filter((seat) => values[`seat-${seat.key}`]).map((seat) => seat.key);

function fields(bounds, given) {
  const able = bounds.seats.filter((one) => !one.why_not).map((one) => [one.key, one.shown]);
  const usual = new Set(bounds.seats.filter((one) => !one.why_not).slice(0, Math.max(USUAL, bounds.fewest)).map((one) => one.key));
  return [
    field("Topic", h("textarea", { name: "topic", rows: 2, required: true, maxlength: bounds.longest_topic, placeholder: "Is P equal to NP?" }, given.topic)),
    h("fieldset", { class: "seats" }, h("legend", null, `Who takes part (${bounds.fewest} to ${bounds.most})`), bounds.seats.map((one) => seat(one, usual.has(one.key)))),
    field("Channel", select("channel", usualFirst(me.channels.map(({ id }) => id), given.channel || me.channels[0]?.id).map((id) => [id, channelText({ id })]))),
    h("div", { class: "row" },
      field("Turns", h("input", { name: "turns", type: "number", min: 2, max: bounds.most_turns, value: bounds.turns, required: true })),
      explained("Format", "format", usualFirst(Object.keys(bounds.formats), bounds.format).map((name) => [name, capital(name), bounds.formats[name]])),
      explained("Who speaks next", "policy", usualFirst(Object.keys(bounds.policies), bounds.policy).map((name) => [name, ...bounds.policies[name].replace(/\)$/, "").split(" (")]))),
    h("details", null, h("summary", null, "More"), h("div", { class: "stack" },
      field("Title, if the topic is long", h("input", { name: "title", maxlength: 100 })),
      field("Moderator, who asks and sums up in a room with a format", select("moderator", [["", "nobody"], ...able])),
      field("Judge, who isn't a member and decides a debate at its end", select("judge", [["", "nobody"], ...able])),
      check("poll", "In a debate, ask people for their side before and after"),
      field("Theme", select("theme", usualFirst(bounds.themes, bounds.theme).map((theme) => [theme, theme]))),
      field("Rules", h("textarea", { name: "rules", rows: 3, maxlength: bounds.longest_rules, placeholder: "At most five sentences" })),
      field("Seconds for the audience after each round (0: people may always write)", h("input", { name: "audience", type: "number", min: 0, max: 3600, value: 0 })),
      field("Pace", h("input", { name: "pace", value: "live", maxlength: 40, placeholder: "live, slow, seconds, or 09:00 18:00" })),
      field("Discord archives the thread after", select("archive", usualFirst(bounds.archives, bounds.archive).map((minutes) => [minutes, ARCHIVES[minutes] || `${minutes} minutes`]))),
      check("goodbye", "A member can end it by posting just a goodbye"))),
  ];
}

const check = (name, text) => h("label", { class: "seat check" }, h("input", { type: "checkbox", name }), h("span", null, text));

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// A choice with a line below it that explains what is chosen: [[value, text, about], …].
function explained(label, name, choices) {
  const about = h("small", { class: "muted", id: `about-${name}` });
  const explain = () => fill(about, choices.find(([value]) => value === chooser.value)[2] || "");
  const chooser = select(name, choices);
  chooser.setAttribute("aria-describedby", about.id);
  chooser.addEventListener("change", explain);
  explain();
  const node = field(label, chooser);
  node.append(about);
  return node;
}

const usualFirst = (all, usual) => [usual, ...all.filter((one) => one !== usual)];

function seat(one, checked) {
  const id = `seat-${one.key}`;
  return h("label", { class: "seat", for: id, title: one.why_not || one.about }, h("input", { type: "checkbox", id, name: id, disabled: Boolean(one.why_not), checked }),
    h("span", null, one.shown), one.bot && chip("bot"), one.why_not && h("span", { class: "muted" }, one.why_not));
}
