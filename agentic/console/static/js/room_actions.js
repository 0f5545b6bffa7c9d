// Buttons and dialogs for rooms. What they do is an action like any other (actions.js).
import { act, button, field, group, select } from "./actions.js";
import { get } from "./api.js";
import { ask, channelText, chip, h, toast } from "./dom.js";
import { me } from "./me.js";

const ARCHIVES = { 60: "an hour", 1440: "a day", 4320: "three days", 10080: "a week" };

// For the head of a room. `room` is as in /api/rooms/{thread}.
export function roomActions(room) {
  const { id, status, members } = room;
  const order = (name, more = {}) => act(name, { room: id, ...more });
  const active = status === "active";
  return group(`Actions for the room ${room.topic}`,
    active && button("Next speaker", () => choose("Next speaker", members, (agent) => order("next_in_room", { agent }))),
    button("Add", () => choose("Who joins?", room.others.filter((seat) => !seat.why_not), (agent) => order("add_to_room", { agent }))),
    button("Remove", () => choose("Who leaves?", members, (agent) => order("remove_from_room", { agent }))),
    active && button("Pause", () => order("pause_room")),
    !active && button("Resume", () => resume(room, order), { class: "primary" }),
    status !== "closed" && button("Close", () => close(room, order), { class: "danger" }));
}

// "Open a room", where a bot can make its thread; otherwise why none can.
export function openRoom(whyNot) {
  if (whyNot) return h("p", { class: "muted" }, `You can't open a room from here: ${whyNot}.`);
  return button("Open a room", openDialog, { class: "primary" });
}

async function choose(title, agents, then) {
  if (!agents.length) return toast("There's nobody to choose from.");
  const values = await ask(title, field("Who", select("agent", agents.map((one) => [one.key, one.shown]))), title.replace("?", ""));
  if (values) await then(values.agent);
}

async function close(room, order) {
  if (await ask("Close the room?", h("p", null, `This ends “${room.topic}”. You can resume it later.`), "Close it")) await order("close_room");
}

async function resume(room, order) {
  const turns = h("input", { name: "turns", type: "number", min: 1, max: 200, value: room.turn >= room.turns ? 10 : "", placeholder: "none" });
  const values = await ask("Resume the room", [h("p", null, `It's at turn ${room.turn} of ${room.turns}.`), field("More turns", turns)], "Resume");
  if (values) await order("resume_room", values.turns ? { turns: Number(values.turns) } : {});
}

async function openDialog() {
  const bounds = await get("api/new-room").catch((error) => toast(error.message, "bad"));
  if (!bounds) return;
  const values = await ask("Open a room", fields(bounds), "Open");
  if (!values) return;
  const chosen = bounds.seats.filter((seat) => values[`seat-${seat.key}`]).map((seat) => seat.key);
  await act("open_room", {
    channel: values.channel, topic: values.topic, personas: chosen.join(", "), policy: values.policy, turns: Number(values.turns),
    archive: values.archive, audience: Number(values.audience || 0), rules: values.rules, goodbye_ends: Boolean(values.goodbye),
    theme: values.theme,
  });
}

function fields(bounds) {
  return [
    field("Topic", h("input", { name: "topic", required: true, maxlength: bounds.longest_topic, placeholder: "Is P equal to NP?" })),
    h("fieldset", { class: "seats" }, h("legend", null, `Who takes part (${bounds.fewest} to ${bounds.most})`), bounds.seats.map(seat)),
    field("Channel", select("channel", me.channels.map((channel) => [channel.id, channelText(channel)]))),
    h("div", { class: "row" },
      field("Turns", h("input", { name: "turns", type: "number", min: 2, max: bounds.most_turns, value: bounds.turns, required: true })),
      field("Who speaks next", select("policy", usualFirst(Object.keys(bounds.policies), bounds.policy).map((policy) => [policy, bounds.policies[policy]])))),
    h("details", null, h("summary", null, "More"), h("div", { class: "stack" },
      field("Theme", select("theme", usualFirst(bounds.themes, bounds.theme).map((theme) => [theme, theme]))),
      field("Rules", h("textarea", { name: "rules", rows: 3, maxlength: bounds.longest_rules, placeholder: "At most five sentences" })),
      field("Seconds for the audience after each round (0: people may always write)", h("input", { name: "audience", type: "number", min: 0, max: 3600, value: 0 })),
      field("Discord archives the thread after", select("archive", usualFirst(bounds.archives, bounds.archive).map((minutes) => [minutes, ARCHIVES[minutes] || `${minutes} minutes`]))),
      h("label", { class: "row" }, h("input", { type: "checkbox", name: "goodbye" }), "A member can end it by posting just a goodbye"))),
  ];
}

const usualFirst = (all, usual) => [usual, ...all.filter((one) => one !== usual)];

function seat(one) {
  const id = `seat-${one.key}`;
  return h("label", { class: "seat", for: id, title: one.why_not || one.about }, h("input", { type: "checkbox", id, name: id, disabled: Boolean(one.why_not) }),
    h("span", null, one.shown), one.bot && chip("bot"), one.why_not && h("span", { class: "muted" }, one.why_not));
}
