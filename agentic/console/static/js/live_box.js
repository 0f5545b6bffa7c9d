// Local mode's box to write in: Enter sends, Shift+Enter begins a line, @ offers names, / offers commands.
import { post } from "./api.js";
import { agentName, avatar, fill, h } from "./dom.js";
import { several } from "./format.js";
import { CommandAnswers } from "./live_answers.js";
import { snippet } from "./live_message.js";
import { me } from "./me.js";

const MOST_FILE = 8e6; // bytes
const MOST = 2000; // characters of a message, as in Discord
const drafts = new Map(); // channel → text

// { node, reply(message), write(text), forgive(), focus() }; forgive() forgets an error. `commands` are as in play.js, `isTalk()` says whether bots answer there
// without being named.
export function writingBox(channel, person, commands, isTalk) {
  let target = null, file = null, offered = [], chosen = 0;
  const area = h("textarea", {
    rows: "1", "aria-label": `Message to #${channel.name}`, placeholder: matchMedia("(max-width: 46rem)").matches ? `Message #${channel.name}` : `Message #${channel.name} (@ for a bot, / for commands)`,
    autocomplete: "off", "aria-autocomplete": "list", "aria-controls": "mention-list",
  });
  const list = h("div", { class: "mentions", id: "mention-list", role: "listbox", "aria-label": "Suggestions", hidden: true });
  const replying = h("div", { class: "replying", hidden: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const left = h("small", { class: "left" });
  const hint = h("p", { class: "muted", role: "status" });
  const send = h("button", { class: "primary", "aria-label": "Send", title: "Send (Enter)" }, "Send");
  const picker = h("input", { type: "file", hidden: true, onchange: () => attach(picker.files[0]) });
  const pick = h("button", { type: "button", class: "quiet icon attach", "aria-label": "Attach a file", title: "Attach a file", onclick: () => picker.click() }, "+");
  const attached = h("div", { class: "replying", hidden: true });
  const answers = new CommandAnswers(channel, person);
  const own = commands.map(({ name }) => name);
  const typeable = [...commands.filter(({ about }) => about), ...person.commands.filter(({ name }) => !own.includes(name))];
  const form = h("form", { class: "writing" }, list, answers.node, replying, attached, h("div", { class: "writing-row" }, pick, picker, area, send), left, hint, problem);

  const resize = () => {
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, 200)}px`;
    const room = MOST - area.value.length;
    left.textContent = room < 0 ? `${several(-room, "character")} too many` : room < 200 ? `${several(room, "character")} left` : "";
    left.classList.toggle("problem", room < 0);
    send.disabled = !(area.value.trim() || file) || room < 0;
    drafts.set(channel.id, area.value);
  };

  const reply = (message) => {
    target = message;
    replying.hidden = !message;
    if (!message) return;
    fill(replying, h("span", null, "Replying to ", h("b", null, message.author.agent ? agentName(message.author.agent) : message.author.name), " ", h("span", { class: "muted", dir: "auto" }, snippet(message))),
      h("button", { type: "button", class: "quiet icon", "aria-label": "Cancel the reply", onclick: () => { reply(null); area.focus(); } }, "×"));
    area.focus();
  };

  const attach = (chosen) => {
    picker.value = "";
    if (chosen && chosen.size > MOST_FILE) return void fill(problem, `That file has ${Math.ceil(chosen.size / 1e6)} MB. The limit is ${MOST_FILE / 1e6} MB.`);
    file = chosen || null;
    attached.hidden = !file;
    fill(problem);
    if (file) fill(attached, h("span", null, "📄 ", h("bdi", null, file.name)), h("button", { type: "button", class: "quiet icon", "aria-label": "Remove the file", onclick: () => attach(null) }, "×"));
    resize();
    area.focus();
  };

  // --- names after an @, commands after a / ---
  const word = () => area.value.slice(0, area.selectionStart).match(/(?:^|[^\p{L}\p{N}_@<])@([\p{L}\p{N}_-]{0,32})$/u);
  const offer = () => {
    const found = area.selectionStart === area.selectionEnd && word();
    const typed = found ? found[1].toLowerCase() : "", slash = area.value.match(/^\/([a-z-]* ?[a-z-]*)$/i);
    offered = found ? person.mentions.filter((name) => name.toLowerCase().startsWith(typed)) : [];
    if (offered.length === 1 && offered[0].toLowerCase() === typed) offered = [];
    if (slash) offered = commandsLike(slash[1].toLowerCase());
    chosen = 0;
    paint();
  };
  const commandsLike = (start) => (person.commands.some(({ name }) => name === start) && !own.includes(start) ? [] : typeable.filter(({ name }) => name.startsWith(start)));
  const paint = () => {
    list.hidden = offered.length === 0;
    fill(list, offered.map((one, index) => {
      const choose = (event) => { event.preventDefault(); accept(index); };
      return h("div", { role: "option", id: `mention-${index}`, "aria-selected": String(index === chosen), onpointerdown: choose }, one.name ? [h("b", null, `/${one.name}`), h("small", null, one.about)] : nameOption(one));
    }));
    if (offered.length) area.setAttribute("aria-activedescendant", `mention-${chosen}`);
    else area.removeAttribute("aria-activedescendant");
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const accept = (index) => {
    const one = offered[index];
    offered = [];
    paint();
    if (one.run) return carryOut(one, "");
    if (one.name) return write(`/${one.name} `); // what follows is typed
    const start = area.selectionStart - word()[1].length;
    area.setRangeText(`${one} `, start, area.selectionStart, "end");
    resize();
  };
  const carryOut = (command, words) => {
    area.value = "";
    resize();
    command.run(words, answers);
  };
  const use = async (line) => {
    area.value = "";
    resize();
    try {
      await answers.use(line);
    } catch (error) {
      fill(problem, error.message);
      if (!area.value) write(line);
    }
  };

  const onkeydown = (event) => {
    if (event.isComposing) return;
    if (offered.length && ["ArrowDown", "ArrowUp", "Tab", "Enter", "Escape"].includes(event.key) && !event.shiftKey) {
      event.preventDefault();
      event.stopPropagation();
      if (event.key === "Escape") { offered = []; paint(); }
      else if (event.key === "Tab" || event.key === "Enter") accept(chosen);
      else { chosen = (chosen + (event.key === "ArrowDown" ? 1 : -1) + offered.length) % offered.length; paint(); }
    } else if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      form.requestSubmit();
    } else if (event.key === "Escape" && target) reply(null);
  };

  const submit = async (event) => {
    event.preventDefault();
    const text = area.value.trim();
    if (!(text || file) || text.length > MOST) return;
    const typed = text.match(/^\/([a-z]+)(?:\s+(.*))?$/is);
    const command = !file && typed && commands.find(({ name, takes }) => name === typed[1].toLowerCase() && (!takes || takes(typed[2] || "")));
    fill(problem);
    if (command) return carryOut(command, typed[2] || "");
    if (!file && /^\/(?!\/)/.test(text)) return use(text);
    const answered = target, sent = file;
    area.value = "";
    reply(null);
    attach(null);
    resize();
    const named = answered || person.mentions.some((name) => text.toLowerCase().includes(`@${name.toLowerCase()}`));
    fill(hint, !named && !isTalk() && `No conversation is running here, so bots might not answer. Mention one, such as @${person.mentions[0]}, or press Start above.`);
    try {
      await post(`api/live/channels/${channel.id}/messages`, { text, reply_to: answered ? answered.id : null, file: sent && { name: sent.name, data: await base64(sent) } });
    } catch (error) {
      fill(problem, error.message);
      if (!area.value) area.value = text; // nothing that was typed is lost
      if (answered) reply(answered);
      if (sent) { attach(sent); fill(problem, error.message); }
      resize();
    }
    area.focus();
  };

  form.addEventListener("submit", submit);
  area.addEventListener("keydown", onkeydown);
  area.addEventListener("input", () => { fill(problem); fill(hint); resize(); offer(); });
  area.addEventListener("click", offer);
  area.addEventListener("paste", (event) => { if (event.clipboardData.files.length) { event.preventDefault(); attach(event.clipboardData.files[0]); } });
  form.addEventListener("dragover", (event) => event.preventDefault());
  form.addEventListener("drop", (event) => { event.preventDefault(); if (event.dataTransfer.files.length) attach(event.dataTransfer.files[0]); });
  area.addEventListener("blur", () => { offered = []; paint(); });
  area.value = drafts.get(channel.id) || "";
  resize();
  const write = (text) => { area.value = text; resize(); area.focus(); };
  return { node: form, reply, write, forgive: () => fill(problem), focus: () => area.focus() };
}

function nameOption(name) {
  return [avatar(Object.keys(me.names).find((agent) => me.names[agent] === name), name), name];
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => reject(new Error("The file can't be read."));
    reader.readAsDataURL(file);
  });
}
