// Commands of the bots that are typed in the box. Only the person who typed one sees its answer, above the box; a form
// in it is a dialog.
import { field } from "./actions.js";
import { post } from "./api.js";
import { ask, fill, h } from "./dom.js";
import { formatted, knownNames } from "./markup.js";

export class CommandAnswers {
  constructor(channel, person) {
    this.channel = channel;
    this.names = knownNames([person.name]);
    this.node = h("section", { class: "answer", role: "status", "aria-label": "Answer to your command", hidden: true });
  }

  // Throws ApiError.
  async use(line) {
    this.show(h("p", { class: "loading" }, `${line.split(/\s/)[0]} …`));
    try {
      this.#take(await post(`api/live/channels/${this.channel.id}/commands`, { line }));
    } catch (error) {
      this.show();
      throw error;
    }
  }

  // Shows nodes, or nothing.
  show(...nodes) {
    this.node.hidden = !nodes.length;
    fill(this.node, nodes.length > 0 && [
      h("div", { class: "row apart" }, h("small", null, "Only you see this"), h("button", { type: "button", class: "quiet icon", "aria-label": "Close the answer", onclick: () => this.show() }, "×")),
      h("div", { class: "answer-text message-text", tabindex: "0" }, nodes)]);
  }

  #take({ text, title, fields, form }) {
    if (form) this.#fillIn(text, title, fields, form);
    if (form || !text) this.show();
    else this.show(formatted(text, this.names));
  }

  #fillIn(text, title, fields, form) {
    const isTitle = !title && !text.includes("\n"); // the question of a menu
    const words = !isTitle && text && h("div", { class: "message-text" }, formatted(text, this.names));
    ask(title || (isTitle && text) || fields[0].label, [words, ...fields.map(fieldNode)], "Send", async (values) => {
      const filled = fields.map((each, n) => (each.choices.length && each.most > 1 ? each.choices.map(([value]) => value).filter((value) => values[`${n}-${value}`]) : [values[`field-${n}`] || ""]));
      const answer = await post(`api/live/forms/${form}`, { values: filled });
      setTimeout(() => this.#take(answer)); // this dialog closes first
    });
  }
}

function fieldNode({ label, value, is_long: isLong, required, longest, choices, most }, n) {
  const name = `field-${n}`;
  if (!choices.length) return field(label, Object.assign(h(isLong ? "textarea" : "input", { name, required, maxlength: longest, rows: isLong && 4 }), { value }));
  if (most === 1) return field(label, h("select", { name }, choices.map(([key, text]) => h("option", { value: key }, text))));
  return h("fieldset", { class: "seats" }, h("legend", null, label),
    choices.map(([key, text, about]) => h("label", { class: "seat", title: about }, h("input", { type: "checkbox", name: `${n}-${key}` }), h("span", null, text))));
}
