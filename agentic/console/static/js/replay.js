// "What would it say now?": the turn again, with another model or persona. The estimate first, then both answers.
import { get, post } from "./api.js";
import { agentName, card, chip, fill, h } from "./dom.js";
import { money, tokens } from "./format.js";
import { formatted, knownNames } from "./markup.js";

const ARRIVAL = 12_000; // milliseconds
const NEW_TURN = 60; // seconds after its end in which a turn, and then its prompt, may still reach the history

// turn: as api/turns/{agent}/{id} gives it. The panel asks for nothing before its button is pressed.
export function replayPanel(turn) {
  const panel = h("section", { class: "card", "aria-label": "Replay", "aria-live": "polite" });
  return fill(panel, h("div", { class: "row apart" },
    h("span", { class: "muted" }, "This repeats the turn with the same inputs. Nothing is posted."),
    h("button", { onclick: () => choose(panel, turn) }, "What would it say now?")));
}

async function choose(panel, turn) {
  fill(panel, h("p", { class: "loading" }, "Looking up what it would cost…"));
  try {
    const form = await replayForm(turn, both);
    fill(panel, h("h2", null, "What would it say now?"), form);
    form.querySelector("input").focus();
  } catch (error) {
    fill(panel, problem(error.message));
  }
}

// Asks the turn's question again. `show(answer, wish)` returns what is shown then: `answer` is as the server gives it,
// `wish` is the chosen { model, persona }. `turn` needs `agent` and `id`.
export async function replayForm(turn, show) {
  const choices = await get("api/replay");
  const estimate = h("p", { "aria-live": "polite" });
  const go = h("button", { class: "primary", disabled: true }, "Ask");
  const answers = h("div", { class: "stack", "aria-live": "polite" });
  const model = h("input", { id: "replay-model", list: "replay-models", maxlength: 200, placeholder: "its own", autocomplete: "off" });
  const persona = h("select", { id: "replay-persona" }, h("option", { value: "" }, "its own, as it was"),
    choices.personas.map((name) => h("option", { value: name }, agentName(name))));
  const wish = () => ({ model: model.value.trim() || undefined, persona: persona.value || undefined });

  let asked = 0;
  async function look() {
    const number = ++asked;
    go.disabled = true;
    fill(estimate, "…");
    try {
      const found = await estimated(turn, wish());
      if (number === asked) {
        fill(estimate, `${found.model}: ${found.most_usd ? `at most ${money(found.most_usd)}` : "costs nothing"}.${missing(found.pictures_missing)}`);
        go.disabled = false;
      }
    } catch (error) {
      if (number === asked) fill(estimate, problem(error.message));
    }
  }

  model.addEventListener("change", () => { if (model.value) persona.value = ""; look(); });
  persona.addEventListener("change", () => { if (persona.value) model.value = ""; look(); });
  go.addEventListener("click", () => run(answers, turn, wish(), [go, model, persona], show));
  look();
  return h("div", { class: "stack" },
    h("div", { class: "filters" },
      h("div", { class: "field" }, h("label", { for: "replay-model" }, "Model"), model),
      h("datalist", { id: "replay-models" }, choices.models.map((name) => h("option", { value: name }))),
      h("div", { class: "field" }, h("label", { for: "replay-persona" }, "Persona"), persona), go),
    estimate, answers);
}

async function estimated(turn, wish) {
  for (const began = Date.now(); ; await new Promise((resolve) => setTimeout(resolve, 700))) {
    try {
      return await post(replayAddress(turn), { ...wish, estimate: true });
    } catch (error) {
      const isComing = [404, 409].includes(error.status) && Date.now() / 1000 - turn.at < NEW_TURN;
      if (!isComing || Date.now() - began > ARRIVAL) throw error;
    }
  }
}

async function run(place, turn, wish, controls, show) {
  const cancel = h("button", { class: "danger", onclick: () => { cancel.disabled = true; post("api/replay/cancel").catch(() => {}); } }, "Cancel");
  fill(place, h("div", { class: "row" }, h("span", { class: "muted" }, "Asking the model…"), cancel));
  for (const control of controls) control.disabled = true;
  try {
    fill(place, show(await post(replayAddress(turn), wish), wish));
  } catch (error) {
    fill(place, problem(error.message));
  }
  for (const control of controls) control.disabled = false;
}

export function both({ old, new: now, same, problem: lacks }) {
  const difference = same ? chip("Exactly the same answer", "good") : null;
  return [difference, lacks && problem(lacks),
    h("div", { class: "replay-answers" }, answer("Then", old), now && answer("Now", now))];
}

function answer(title, { model, text, decision, input_tokens, output_tokens, cost_usd }) {
  const says = decision ? decision.text || "" : text;
  return card(title,
    h("div", { class: "row" }, chip(model), chip(decided(decision), decision ? "accent" : "warn")),
    says && h("div", { class: "replay-words message-text" }, formatted(says, knownNames())),
    h("small", null, `${tokens(input_tokens)} tokens in, ${tokens(output_tokens)} out, ${money(cost_usd)}`));
}

// As agentic.replay.replay.decided says it.
export function decided(decision) {
  if (!decision) return "no decision";
  if (decision.skip) return "skips";
  const parts = [decision.text && "speaks", decision.generate_image && "draws",
    decision.react_emoji && `reacts ${decision.react_emoji}`, decision.end_conversation && "ends"];
  return parts.filter(Boolean).join(", ") || "does nothing";
}

export const replayAddress = (turn) => `api/turns/${encodeURIComponent(turn.agent)}/${encodeURIComponent(turn.id)}/replay`;
const missing = (pictures) => (pictures ? ` ${pictures} picture${pictures === 1 ? "" : "s"} of its prompt can't be sent, because pictures aren't recorded.` : "");
const problem = (text) => h("p", { class: "problem" }, text);
