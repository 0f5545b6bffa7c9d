// A post of an agent as the record has it: text as Discord shows it, picture, reactions. And how posts are saved.
import { agentName, at, avatar, coloured, h } from "./dom.js";
import { dateTime } from "./format.js";
import { formatted, knownNames, shownEmoji } from "./markup.js";

// `post` is { text, at, deleted_at, picture, reactions }; `links` stand beside the time.
export function postNode(agent, post, ...links) {
  const names = knownNames();
  const head = h("div", { class: "message-head" }, h("b", null, agentName(agent)), at(post.at), ...links);
  const gone = post.deleted_at && h("p", { class: "muted" }, `Deleted in Discord on ${dateTime(post.deleted_at)}, so the history no longer has its text.`);
  const text = h("div", { class: "message-text" }, gone || (post.text ? formatted(post.text, names) : !post.picture && h("p", { class: "muted" }, "Its text isn't in the history.")));
  return coloured(h("article", { class: "message" }, avatar(agent), head, text, picture(post), reactions(post.reactions)), agent);
}

function picture(post) {
  if (!post.picture) return null;
  return h("a", { class: "picture message-part", href: post.picture, target: "_blank", rel: "noopener" },
    h("img", { src: post.picture, alt: "The picture that it drew", loading: "lazy" }));
}

function reactions(given) {
  if (!given.length) return null;
  return h("div", { class: "reactions" }, given.map(({ emoji, count }) =>
    h("span", { class: "reaction", "aria-label": `${emoji}, ${count}` }, h("span", null, shownEmoji(emoji)), " ", count)));
}

// Links that save a conversation or room; `path` is its address in the API.
export function saveAs(path) {
  const formats = [["html", "Web page"], ["md", "Markdown"], ["json", "JSON"]];
  return h("p", { class: "row save-as", role: "group", "aria-label": "Save it as" }, h("span", { class: "muted" }, "Save as"),
    formats.map(([format, name]) => h("a", { href: `${path}/export?format=${format}`, download: "" }, name)));
}
