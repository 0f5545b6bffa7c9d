// Who speaks next, and why: the scores of the last choice in a channel or room, in a panel beside its button.
import { get } from "./api.js";
import { agentInline, at, h } from "./dom.js";
import { openPopover } from "./popover.js";
import { scoreList } from "./why.js";

// { node, look }: a button that is there once a choice by scores is known; look() asks again.
export function pullsButton(channel) {
  let choice = null;
  const open = () => openPopover(node, "Who speaks next, and why", () => explained(choice), "why-panel");
  const node = h("button", { type: "button", class: "why", hidden: true, "aria-haspopup": "dialog", title: "Who speaks next, and why", onclick: open }, "Who’s next?");
  const look = async () => {
    ({ choice } = await get(`api/pulls/${encodeURIComponent(channel)}`).catch(() => ({ choice: null })));
    node.hidden = !choice;
  };
  look();
  return { node, look };
}

function explained({ at: asked, chosen, because, pulls }) {
  return [
    h("p", null, agentInline(chosen), " was asked at ", at(asked), because && `: ${because}`, "."),
    scoreList(pulls, chosen),
    h("p", { class: "muted" }, "The highest score speaks next. The scores are from the last choice."),
  ];
}
