// One conversation as a chat: every post, and between them, folded, the turns in which nobody spoke.
import { get } from "./api.js";
import { ending } from "./conversations.js";
import { agentChip, agentName, at, chip, empty, figure, fill, h } from "./dom.js";
import { dayAndClock, money, seconds } from "./format.js";
import { postNode, saveAs } from "./posts.js";
import { alsoDid, outcomeChip, placeLink, turnAddress, turnsAddress } from "./turn_words.js";

const LOOK = 4000; // milliseconds between two looks


export async function render(root, { parts: [id], signal }) {
  const path = `api/conversations/${encodeURIComponent(id || "")}`;
  let talk = await get(path, {}, { signal });
  const show = () => {
    document.title = `${talk.topic || "Conversation"} · agentic-discord`;
    fill(root,
      h("div", { class: "page-head" },
        h("h1", null, talk.topic || "Conversation without a topic"),
        saveAs(path)),
      facts(talk),
      talk.items.length ? h("section", { class: "card chat-card", "aria-label": "The conversation" }, chat(talk)) : empty("None of its turns are in the history."));
  };
  show();
  const look = async () => {
    if (talk.ended_at || root.contains(document.activeElement)) return; // what has the focus stays
    const found = await get(path, {}, { signal });
    if (found.items.length === talk.items.length && !found.ended_at) return;
    talk = found;
    show();
  };
  const timer = setInterval(() => look().catch(() => {}), LOOK); // the next look comes
  return () => clearInterval(timer);
}

function facts(talk) {
  const took = talk.ended_at ? seconds(talk.ended_at - talk.started_at) : "–";
  return h("section", { class: "card", "aria-label": "Facts" },
    h("div", { class: "row" }, placeLink(talk.channel, "Its room"), talk.theme !== talk.channel.name && chip(talk.theme), h("span", { class: "muted" }, dayAndClock(talk.started_at)),
      talk.starter && h("span", null, "opened by ", agentChip(talk.starter)), h("a", { href: turnsAddress({ conversation: talk.id }) }, "Its turns")),
    h("div", { class: "figures" }, figure(talk.rounds, "rounds"), figure(talk.messages, "messages"), talk.skips > 0 && figure(talk.skips, "skipped turns"), figure(money(talk.cost_usd), "cost"), figure(took, "from first to last message")),
    h("p", { class: "muted sentence" }, ending(talk)));
}

function chat(talk) {
  const nodes = [];
  let silent = [], round = null;
  const flush = () => {
    if (silent.length) nodes.push(skipped(silent));
    silent = [];
  };
  for (const turn of talk.items) {
    if (turn.round && turn.round !== round) {
      flush();
      round = turn.round;
      nodes.push(h("div", { class: "round" }, h("span", null, `Round ${round}`)));
    }
    if (!turn.posts.length) {
      silent.push(turn);
      continue;
    }
    flush();
    turn.posts.forEach((post, n) => nodes.push(postNode(turn.agent, post, n === 0 && why(turn))));
  }
  flush();
  return nodes;
}

const why = (turn) => h("a", { class: "why", href: turnAddress(turn), title: "Its turn: prompt, model, cost" }, `why? ${money(turn.cost_usd)}`);

function skipped(turns) {
  const names = [...new Set(turns.map((turn) => agentName(turn.agent)))].join(", ");
  return h("details", { class: "silent" }, h("summary", null, turns.length === 1 ? `${names}: ${said(turns[0])}` : `${turns.length} turns without a post: ${names}`),
    h("ul", { class: "plain" }, turns.map((turn) => h("li", { class: "row" }, at(turn.at), agentChip(turn.agent), outcomeChip(turn), h("span", null, said(turn)), h("a", { href: turnAddress(turn) }, "its turn")))));
}

const said = (turn) => alsoDid(turn) || turn.reason_text || (turn.outcome === "posted" ? "its post isn't in the history" : turn.outcome);
