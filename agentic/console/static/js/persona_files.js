// An agent's persona files: each can be read, edited, tried on recorded questions, and set back to an earlier version.
import { attempt, button } from "./actions.js";
import { get, post } from "./api.js";
import { agentName, card, fill, h } from "./dom.js";
import { diffView } from "./diff.js";
import { count, dateTime, money, several } from "./format.js";
import { both, replayAddress } from "./replay.js";
import { personText, turnAddress } from "./turn_words.js";

const MAX_LENGTH = 65536; // as the server's limit
const QUESTIONS = 3;
const NOT_TRIED = new Set(["memory.md", "heartbeat.md", "boot.md"]); // a replayed prompt keeps its notes

export function personaFiles(agent, wanted, signal) {
  const shown = agent.files.find((file) => file.name === wanted)?.name || agent.files.find((file) => file.size !== null)?.name;
  const place = h("div", { class: "stack" }, h("p", { class: "loading" }, "Loading…"));
  const node = card("Persona files", ...agent.problems.map((text) => problem(text)), shown && tabs(agent, shown, place), place);
  if (shown) show(place, agent, shown, signal).catch(() => {}); // the page was left
  else fill(place, h("p", { class: "muted" }, "It has no persona files, so it uses the built-in character."));
  return node;
}

function tabs(agent, shown, place) {
  const buttons = agent.files.map(({ name }) => h("button", {
    type: "button", "aria-current": name === shown && "true", onclick: async (event) => {
      for (const other of buttons) other.removeAttribute("aria-current");
      event.currentTarget.setAttribute("aria-current", "true");
      history.replaceState(history.state, "", `#/agent/${encodeURIComponent(agent.agent)}?file=${encodeURIComponent(name)}`);
      await show(place, agent, name);
    } }, name));
  return h("div", { class: "tabs", role: "group", "aria-label": `Files of ${agentName(agent.agent)}` }, buttons);
}

async function show(place, agent, name, signal) {
  const file = await get(`api/agents/${encodeURIComponent(agent.agent)}/files/${encodeURIComponent(name)}`, {}, { signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    return { text: null, changes: [], error: error.message };
  });
  const open = (text) => edit(place, agent, file, text);
  fill(place,
    file.text === null ? h("p", { class: "muted" }, file.error || "This file doesn't exist, or can't be read.")
      : h("pre", { dir: "auto", class: "persona-file", tabindex: "0", role: "region", "aria-label": name }, file.text),
    !file.error && h("p", { class: "row" }, button("Edit", () => open(file.text || ""), { class: "primary", "aria-label": `Edit ${name}` })),
    h("h3", null, file.changes.length ? "Recent changes" : "No earlier version is stored."),
    h("p", { class: "muted" }, "The program keeps the last ten versions. If you edit a file on disk, your edit is shown as a part of the next change."),
    file.changes.map((each, n) => change(each, n, open)));
}

function change(each, n, open) {
  const words = `${several(each.added, "line")} added, ${count(each.removed)} removed`;
  return h("details", { open: n === 0 }, h("summary", null, `${each.at ? dateTime(each.at) : "At an unknown time"}: ${words}`),
    each.lines === null ? h("p", { class: "muted" }, "These versions are too long to compare here.") : diffView(each.lines),
    h("p", { class: "row" }, button(n === 0 ? "Undo this change" : "Restore the version before this change", () => open(each.before))));
}

// --- the editor ---

function edit(place, agent, file, text) {
  const label = `Text of ${file.name}`;
  const box = h("textarea", { class: "persona-text", dir: "auto", rows: 16, maxlength: MAX_LENGTH, "aria-label": label }, text);
  const refusal = h("p", { class: "problem", role: "alert" });
  const save = async () => {
    fill(refusal);
    try {
      await attempt("edit_file", { agent: agent.agent, file: file.name, text: box.value, digest: file.digest });
      await show(place, agent, file.name);
    } catch (error) {
      fill(refusal, error.message);
    }
  };
  const trial = h("div", { class: "stack", "aria-live": "polite" });
  fill(place, box, refusal,
    h("div", { class: "row" }, button("Save", save, { class: "primary" }), button("Cancel", () => show(place, agent, file.name)),
      !NOT_TRIED.has(file.name) && button("Try it first", () => plan(trial, agent, { file: file.name, text: box.value }))),
    trial);
  box.focus();
}

// --- a try: the bot's last answers to people, and what it says to the same questions with the new text ---

async function plan(place, agent, draft) {
  fill(place, h("p", { class: "loading" }, "Looking up what it would cost…"));
  try {
    const { items } = await get("api/turns", { agent: agent.agent, outcome: "posted" });
    const turns = [], estimates = [];
    let why = "It hasn't answered anybody yet";
    for (const turn of items.filter((one) => one.asked_by)) {
      if (turns.length === QUESTIONS) break;
      try {
        estimates.push(await post(replayAddress(turn), { ...draft, estimate: true }));
        turns.push(turn);
      } catch (error) {
        if (error.status !== 409) throw error;
        why = error.message; // of this turn no prompt is recorded
      }
    }
    if (!turns.length) return fill(place, problem(`There's no recorded question to try it on: ${why.replace(/\.$/, "")}.`));
    const most = estimates.reduce((sum, one) => sum + one.most_usd, 0);
    fill(place, h("p", null, `${agent.name} answers the last ${several(turns.length, "question")} again with this text. Nothing is posted or saved. ${most ? `It costs at most ${money(most)}.` : "It costs nothing."}`),
      h("p", { class: "row" }, button("Ask", () => run(place, turns, draft), { class: "primary" })));
  } catch (error) {
    fill(place, problem(error.message));
  }
}

async function run(place, turns, draft) {
  let stopped = false;
  const cancel = button("Cancel these questions", () => { stopped = true; return post("api/replay/cancel").catch(() => {}); });
  const answers = h("div", { class: "stack" });
  fill(place, answers, cancel);
  for (const turn of turns) {
    if (stopped || !place.isConnected) break;
    const asked = h("p", null, h("a", { href: turnAddress(turn), target: "_blank" }, `A question from ${personText(turn.asked_by, turn.asked_by_name)}, ${dateTime(turn.at)}`));
    const answer = h("div", { class: "stack" }, h("p", { class: "loading" }, "Asking the model…"));
    answers.append(asked, answer);
    fill(answer, await post(replayAddress(turn), draft).then(both, (error) => problem(error.message)));
  }
  cancel.remove();
}

const problem = (text) => h("p", { class: "problem" }, text);
