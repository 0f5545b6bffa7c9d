// Which page is shown: by the address after #, as in #/turn/claude/m1?tab=prompt.
//
// A page is a module with `async function render(root, params)`: it fills `root` and may return a function that ends what
// it began (timers, streams). `params.parts` are the decoded parts of the address after the page's name, `params.query`
// is a URLSearchParams, `params.signal` an AbortSignal that fires when the page is left: give it to get(), `params.isBack`
// whether it was shown before and one goes back to it, and `params.reload` a function that shows the page again. A page
// with an `icon`, a path of 24 × 24 units, is in the menu; others are reached from their `parent`.
import { ApiError, get, post } from "./api.js";
import { empty, fill, h, svg } from "./dom.js";
import { join } from "./live_session.js";
import { me } from "./me.js";
import { pauseAll } from "./pause.js";
import { arrive, goBack } from "./places.js";

const PAGES = {
  overview: { title: "Overview", load: () => import("./overview.js"), icon: "M4 13h3l3-8 4 14 3-6h3" },
  live: { title: "Live", load: () => import("./live.js"), icon: "M4 5h16v11H9l-5 4z" },
  schedule: { title: "Schedule", load: () => import("./schedule.js"), parent: "live" },
  rooms: { title: "Rooms", load: () => import("./rooms.js"), icon: "M4 20V9l8-5 8 5v11M9 20v-6h6v6" },
  room: { title: "Room", load: () => import("./room.js"), parent: "rooms" },
  arena: { title: "Season", load: () => import("./arena.js"), parent: "rooms" },
  turns: { title: "Turns", load: () => import("./turns.js"), icon: "M4 6h16M4 12h16M4 18h10" },
  turn: { title: "Turn", load: () => import("./turn.js"), parent: "turns" },
  conversations: { title: "Conversations", load: () => import("./conversations.js"), icon: "M3 4h12v8H8l-5 4zM18 9h3v11l-4-3h-6v-2" },
  conversation: { title: "Conversation", load: () => import("./conversation.js"), parent: "conversations" },
  cost: { title: "Cost", load: () => import("./cost.js"), icon: "M4 20V4M4 20h16M8 16v-5M12 16V7M16 16v-3" },
  agents: { title: "Agents", load: () => import("./agents.js"), icon: "M12 3v3M6 6h12v9H6zM9 10v1M15 10v1M4 20c2-3 14-3 16 0" },
  agent: { title: "Agent", load: () => import("./agent.js"), parent: "agents" },
};
const AWAY = "The program isn't responding. This page loads as soon as it does.";
const NOTHING = "There's nothing at this address. Is it complete?";
const RETRY = 2000; // milliseconds

const main = document.getElementById("main");
let leave = () => {};
let shown = 0; // counts the pages that were asked for: a slow one must not replace a later one
let last = "";
let retry = 0;
let stopListening = null; // to the stream

async function route() {
  const mine = ++shown, isHere = () => mine === shown;
  clearTimeout(retry);
  const place = arrive();
  const [path, search] = location.hash.replace(/^#\/?/, "").split("?");
  const [first, ...parts] = path.split("/").filter(Boolean).map(decoded);
  const name = Object.hasOwn(PAGES, first || "") ? first : document.documentElement.dataset.first;
  const { title, load, parent } = PAGES[name];
  for (const old of document.querySelectorAll(".toast[data-until=page]")) old.remove();
  leave();
  const left = new AbortController();
  leave = () => left.abort();
  mark(parent || name);
  document.title = `${title} · agentic-discord`;
  const root = h("div", { class: `page ${name}-page` });
  const slow = setTimeout(() => mine === shown && fill(main, h("p", { class: "loading" }, "Loading…")), 150);
  try {
    const { render } = await load().catch(() => { throw new ApiError(0, AWAY, "module"); });
    const end = await render(root, { parts, query: new URLSearchParams(search || ""), signal: left.signal, isBack: place !== null, reload: () => mine === shown && route() });
    if (mine !== shown) return end?.();
    leave = () => { left.abort(); end?.(); };
    clearTimeout(slow);
    fill(main, root);
    if (last && last !== name) main.focus({ preventScroll: true }); // what was chosen is read next by a screen reader
    if (place !== null) await goBack(place, isHere);
    else if (last !== name) scrollTo(0, 0);
    last = name;
  } catch (error) {
    if (mine !== shown || error.name === "AbortError" || error.status === 401) return;
    if (!(error instanceof ApiError)) console.error(error);
    fail(error, error.field === "module" ? reload : route, parent);
  } finally {
    clearTimeout(slow);
    if (mine === shown) main.dataset.address = location.hash; // which page `main` has, for tests
  }
}

// Shows why a page is missing, with the way back to the page `parent`, if any. While the program isn't responding, it is
// tried again.
function fail(error, again, parent = "") {
  const isAway = error.status === 0;
  const text = isAway ? AWAY : error.status === 400 && parent ? NOTHING : error instanceof ApiError ? error.message : "Something went wrong on this page. Reload it. The browser's console has the details.";
  const back = parent && !isAway && h("a", { class: "button primary", href: `#/${parent}` }, `Go to ${PAGES[parent].title}`);
  fill(main, h("div", { class: "page" }, empty(text), h("p", { class: "row centre" }, back, h("button", { onclick: again }, "Try again"))));
  if (isAway) retry = setTimeout(again, RETRY);
}

// A browser remembers that a module could not be loaded until the whole page is loaded again.
async function reload() {
  try {
    await get("api/me");
    location.reload();
  } catch (error) {
    if (error.status === 401) location.reload();
    else fail(error, reload);
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function mark(name) {
  for (const link of document.querySelectorAll(".nav a")) {
    if (link.getAttribute("href") === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

// --- signing in ---

function signIn() {
  shown++;
  clearTimeout(retry);
  leave();
  leave = () => {};
  stopListening?.(); // otherwise the stream would ask again and again
  stopListening = null;
  document.body.classList.add("signed-out");
  const field = h("input", { type: "password", name: "token", required: true, autocomplete: "current-password", id: "token" });
  const problem = h("p", { class: "problem", role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    try {
      await post("api/login", { token: field.value.trim() });
      location.reload(); // what was asked for ahead was refused, and a browser may keep that
    } catch (error) {
      fill(problem, error.message);
      field.select();
    }
  };
  fill(main, h("form", { class: "card sign-in", onsubmit: submit }, h("h1", null, "Sign in"),
    h("label", { for: "token" }, "Token"), field,
    h("p", { class: "muted" }, "The bots' owner set it as CONSOLE_TOKEN in .env."), problem,
    h("button", { class: "primary" }, "Sign in")));
  field.focus();
}

function topEnd() {
  const leaveConsole = async () => {
    await post("api/logout");
    signIn();
  };
  fill(document.getElementById("top-end"), pauseAll(document.querySelector(".top")),
    me.local && h("span", { class: "chip", title: "Bots on this machine, without Discord" }, "local"),
    me.signs_in && h("button", { class: "quiet", onclick: leaveConsole }, "Sign out"));
}

async function start() {
  try {
    Object.assign(me, await get("api/me"));
  } catch (error) {
    if (error.status !== 401) fail(error, start);
    return;
  }
  document.body.classList.remove("signed-out");
  topEnd();
  window.removeEventListener("hashchange", route);
  window.addEventListener("hashchange", route);
  await route();
  await listen();
}

// Keeps the stream open on every page, once somebody sees it: it tells of a pause.
async function listen() {
  if (stopListening || document.body.classList.contains("signed-out")) return;
  if (document.hidden) return document.addEventListener("visibilitychange", listen, { once: true });
  try {
    [, stopListening] = await join(() => {});
  } catch {
    setTimeout(listen, RETRY);
  }
}

function menu() {
  const icon = (path) => svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: path }));
  return Object.entries(PAGES).filter(([, page]) => page.icon)
    .map(([name, page]) => h("a", { href: `#/${name}` }, icon(page.icon), h("span", null, page.title)));
}

fill(document.querySelector(".nav"), menu());
window.addEventListener("signed-out", signIn);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
start();
