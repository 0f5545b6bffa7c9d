// The first page on a server: is everything well, today's cost, running conversations, next times, and each bot's last
// turns as a strip of bars.
import { budgetActions } from "./actions.js";
import { hindranceLines, onlineChip } from "./agent_state.js";
import { get } from "./api.js";
import { agentInline, agentName, at, avatar, card, channelText, coloured, empty, fill, h, svg, when } from "./dom.js";
import { ago, cents, count, dateTime, money, percent, seconds, several, shortDay, soon } from "./format.js";
import { join } from "./live_session.js";
import { me } from "./me.js";
import { beatStrip } from "./overview_strip.js";
import { conversationAddress, outcomeChip, turnAddress } from "./turn_words.js";

const AGAIN = 10000; // milliseconds between two looks
const NEAR = 0.9; // share of a budget from which the page warns
const BY = { usual: "judging by the days before", pace: "judging by today so far" };

export async function render(root, { signal }) {
  let view = null;
  const [session, leave] = await join((kind) => { if (kind === "situation" || kind === "channels") view?.showRunning(); });
  view = new Overview(root, session, signal);
  try {
    await view.look();
  } catch (error) {
    leave();
    throw error;
  }
  view.build();
  const again = () => view.look().catch((error) => { if (error.name !== "AbortError") view.showAway(error.message); });
  const timer = setInterval(again, AGAIN), ticking = setInterval(() => view.showRunning(), 1000);
  window.addEventListener("acted", again);
  return () => {
    clearInterval(timer);
    clearInterval(ticking);
    window.removeEventListener("acted", again);
    leave();
  };
}

class Overview {
  constructor(root, session, signal) {
    Object.assign(this, { root, session, signal, strips: new Map() });
    this.health = h("section", { class: "health", "aria-label": "Health", role: "status" });
    this.spent = h("div", { class: "stack" });
    this.running = h("div");
    this.coming = h("div");
    this.bots = h("ul", { class: "bot-rows" });
    this.failures = h("div", { class: "stack" });
  }

  build() {
    const part = (name, title, body, link) => {
      const head = h("div", { class: "row apart" }, h("h2", null, title), link);
      const node = card(null, head, body);
      node.classList.add(`over-${name}`);
      node.setAttribute("aria-label", title);
      return node;
    };
    fill(this.root, h("h1", { class: "hidden" }, "Overview"), this.health, h("div", { class: "overview" },
      part("spent", "Spent today", this.spent, h("span", { class: "row" }, budgetActions({ kind: "all" }), h("a", { href: "#/cost" }, "Cost"))),
      part("now", "Running now", this.running, h("a", { href: "#/live" }, "Live")),
      part("next", "Next", this.coming, h("a", { href: "#/schedule" }, "Schedule")),
      part("bots", "Bots", this.bots, h("a", { href: "#/agents" }, "Agents")),
      part("failures", "Failed in the last 24 hours", this.failures, h("a", { href: "#/turns?outcome=failed" }, "Turns"))));
  }

  async look() {
    this.data = await get("api/overview", {}, { signal: this.signal });
    this.showHealth();
    this.showSpent();
    this.showBots();
    this.showFailures();
    this.showRunning();
  }

  // --- is everything well? ---

  showHealth() {
    const problems = problemsOf(this.data, this.data.budgets, this.session);
    const kind = problems.some(([level]) => level === "bad") ? "bad" : problems.length ? "warn" : "good";
    const title = { good: "Everything is well", warn: "Worth a look", bad: "Something needs your attention" }[kind];
    const shown = JSON.stringify([kind, this.data.history?.today, problems.map(([, link, words]) => [link, words])], (_, value) => (value instanceof Node ? value.textContent : value));
    if (shown === this.healthShown) return; // a link in it keeps the focus, and a screen reader stays silent
    this.healthShown = shown;
    this.paintHealth(kind, title, h("p", null, this.summary()), problems.length > 0 && h("ul", { class: "plain" }, problems.map(problemItem)));
  }

  paintHealth(kind, title, ...more) {
    this.health.className = `health ${kind}`;
    const paths = { good: "M6.5 12.5l3.7 3.7 7.3-8", warn: "M12 6.5v7M12 17.2v.1", bad: "M12 6.5v7M12 17.2v.1" };
    fill(this.health, svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true" }, svg("path", { d: paths[kind] })),
      h("div", { class: "stack" }, h("p", { class: "health-title" }, title), more));
  }

  showAway(message) {
    this.healthShown = "";
    this.paintHealth("bad", "The page can't be updated", h("p", null, message));
  }

  summary() {
    const bots = this.data.bots.filter((bot) => !bot.persona), online = bots.filter((bot) => bot.online).length;
    const today = sumOf(this.data.history?.today);
    const words = [`${online} of ${several(bots.length, "bot")} online`];
    if (this.data.history) words.push(several(today.all, "turn") + " today", several(today.posted || 0, "post"));
    return words.join(" · ");
  }

  // --- money ---

  showSpent() {
    const { all, forecast } = this.data.budgets, used = all.spent + all.reserved;
    const share = all.cap ? used / all.cap : 0;
    const level = share >= 1 ? "bad" : share >= NEAR ? "warn" : "good";
    const expected = forecast?.usd ?? null;
    fill(this.spent,
      h("p", { class: "big" }, h("b", null, cents(all.spent)), h("span", { class: "muted" }, all.cap === null ? " no limit" : ` of ${cents(all.cap)}`)),
      all.cap !== null && h("div", { class: `budget-bar ${level}`, role: "meter", "aria-label": "Budget used today", "aria-valuemin": 0, "aria-valuemax": all.cap, "aria-valuenow": used, "aria-valuetext": `${cents(used)} of ${cents(all.cap)}` },
        h("span", { style: { width: `${Math.min(1, share) * 100}%` } }),
        expected !== null && h("i", { title: `By midnight: about ${cents(expected)}`, style: { left: `${Math.min(1, expected / all.cap) * 100}%` } })),
      h("p", { class: "muted" }, expected === null ? "Too little is known for a forecast." : ["By midnight: about ", h("b", null, cents(expected)), `, ${BY[forecast.by]}.`]),
      this.data.history && dayBars(this.data.history.days));
  }

  // --- what runs, what comes ---

  showRunning() {
    if (!this.data) return;
    const { situation } = this.session, name = (id) => this.session.nameOf(id);
    const rows = Object.entries(situation.conversations).map(([id, talk]) => runningRow(id, name(id), talk, situation.rooms[id]));
    const busy = new Set(Object.keys(situation.conversations));
    const alone = situation.thinking.filter((one) => !busy.has(one.channel));
    const now = Date.now() / 1000;
    rows.push(...alone.map((one) => h("li", null, agentInline(one.agent), " is answering in ", h("a", { href: `#/live/${one.channel}` }, name(one.channel)), h("span", { class: "muted" }, ` · ${seconds(Math.max(0, Math.floor(now - one.since)))}`))));
    this.replace(this.running, rows.length ? h("ul", { class: "plain running" }, rows) : [calm("Nothing is running.", me.paused ? "All bots are paused." : "The bots answer as soon as somebody mentions them."), lastTalk(this.data.history?.last_talk)]);
    const times = situation.times.map((unix) => h("li", { class: "row apart" }, h("b", null, at(unix)), h("span", { class: "muted" }, ago(unix))));
    const silent = Object.entries(situation.stops).map(([id, until]) => h("li", { class: "row apart" }, h("span", null, name(id), " resumes"), h("span", null, soon(until))));
    this.replace(this.coming, times.length || silent.length ? h("ol", { class: "plain" }, times, silent) : calm("Nothing else is scheduled today.", "You can add a conversation in the schedule."));
  }

  // Shows a part again only if it looks different, so that a link keeps the focus.
  replace(place, nodes) {
    const made = h("div", { class: "stack" }, nodes);
    if (!place.firstChild?.isEqualNode(made) && !place.contains(document.activeElement)) fill(place, made);
  }

  // --- bots ---

  showBots() {
    const rows = this.data.bots.map((bot) => {
      const known = this.strips.get(bot.agent);
      const strip = known?.key === stripKey(bot) ? known : { key: stripKey(bot), node: beatStrip(bot) };
      if (known && known !== strip && known.node.contains(document.activeElement)) strip.node = known.node; // under somebody's hands
      this.strips.set(bot.agent, strip);
      return botRow(bot, strip.node);
    });
    if (this.bots.contains(document.activeElement)) return;
    fill(this.bots, rows.length ? rows : h("li", null, empty("No bot has a token yet.")));
  }

  showFailures() {
    const { history } = this.data;
    if (!history) return fill(this.failures, calm("There's no history yet.", me.recorded ? "It begins with the first turn." : "RECORD_DAYS is 0, so nothing is recorded."));
    if (!history.failures.length) return fill(this.failures, calm("No turn failed.", ""));
    if (this.failures.contains(document.activeElement)) return;
    const more = history.failed - history.failures.length;
    fill(this.failures, h("ul", { class: "plain failures" }, history.failures.map((turn) => h("li", null,
      h("div", { class: "row" }, agentInline(turn.agent), outcomeChip(turn), h("a", { href: turnAddress(turn), title: dateTime(turn.at) }, when(turn.at))),
      h("small", { class: "sentence" }, turn.reason_text || "The reason isn't recorded.")))),
    more > 0 && h("p", { class: "muted" }, `and ${several(more, "more", "more")}`));
  }
}

// --- parts ---

// [level, where to look, words, whose]: what an owner should know, the gravest first.
function problemsOf({ bots, coordinator, recorder }, { all }, session) {
  const found = [];
  const { situation } = session;
  if (me.paused) found.push(["warn", "#/agents", "All bots are paused. Press “Resume all bots” above to end the pause."]);
  if (coordinator === false) found.push(["bad", "#/schedule", "No coordinator is running, so the bots start no conversations. They still answer mentions."]);
  if (recorder.problem) found.push(["bad", "#/agents", `Nothing is recorded: ${recorder.problem}.`]);
  else if (recorder.days !== 0 && recorder.recorder === false) found.push(["bad", "#/agents", "No process is writing the history. New entries wait in Redis, up to a limit."]);
  const used = all.spent + all.reserved;
  if (all.cap !== null && used >= all.cap) found.push(["bad", "#/cost", `Today's budget of ${cents(all.cap)} is used up. You can raise it for today.`]);
  else if (all.cap && used >= all.cap * NEAR) found.push(["warn", "#/cost", `${percent(used / all.cap)} of today's budget is used.`]);
  for (const bot of bots) {
    const [line] = hindranceLines(bot);
    const grave = bot.failure || (!bot.persona && !bot.online && !Object.values(bot.accounts).some(Boolean)) || bot.backoff_until > Date.now() / 1000;
    if (line) found.push([grave ? "bad" : "warn", `#/agent/${encodeURIComponent(bot.agent)}`, line, bot.agent]);
  }
  for (const [id, until] of Object.entries(situation.stops)) found.push(["warn", `#/live/${id}`, `The bots are stopped in ${session.nameOf(id)} until ${soon(until)}.`]);
  return found.sort(([one], [other]) => (one === "warn") - (other === "warn"));
}

const problemItem = ([level, address, words, agent]) => h("li", { class: level }, agent && [agentInline(agent), ": "], words, " ", h("a", { href: address }, "Look"));

function sumOf(today) {
  const sums = { all: 0 };
  for (const outcomes of Object.values(today || {})) {
    for (const [outcome, number] of Object.entries(outcomes)) {
      sums[outcome] = (sums[outcome] || 0) + number;
      sums.all += number;
    }
  }
  return sums;
}

const calm = (title, more) => h("div", { class: "calm" }, h("p", null, title), more && h("p", { class: "muted" }, more));

function lastTalk(talk) {
  if (!talk) return null;
  const ended = talk.ended_at ? ["ended ", when(talk.ended_at)] : ["began ", when(talk.started_at)];
  return h("div", null, h("small", null, "The last conversation, ", ended), h("p", null, h("a", { href: conversationAddress(talk.id), dir: "auto" }, talk.topic || "Without a topic"), h("span", { class: "muted" }, `${talk.channel.room ? "" : ` in ${channelText(talk.channel)}`}, ${several(talk.messages, "message")}`)));
}

function runningRow(id, name, talk, room) {
  const progress = room ? `turn ${room.turn} of ${room.turns}` : talk.single ? "one turn, on request" : `round ${talk.round}`;
  return h("li", { class: "stack" },
    h("div", null, h("a", { class: "running-name", href: room ? `#/room/${id}` : `#/live/${id}`, dir: "auto" }, name), h("span", { class: "muted" }, ` · ${progress}`)),
    !room && talk.topic && h("p", { dir: "auto" }, talk.topic),
    h("small", null, talk.speaker ? [agentInline(talk.speaker), " has the turn"] : talk.coming.length ? [agentInline(talk.coming[0]), " is next"] : "between two turns", " · began ", when(talk.since)));
}

// The cost of the last days, a bar each; today's is filled in the accent's color.
function dayBars(days) {
  const most = Math.max(...days.map((day) => day.cost_usd), 0);
  if (!most) return null;
  const label = `Cost by day: ${days.map((day) => `${shortDay(day.day)} ${cents(day.cost_usd)}`).join(", ")}`;
  return h("figure", { class: "day-bars" },
    h("div", { role: "img", "aria-label": label }, days.map((day, n) => h("span", { class: n === days.length - 1 ? "today" : "", title: `${shortDay(day.day)}: ${cents(day.cost_usd)}`, style: { height: `${Math.max(3, (day.cost_usd / most) * 100)}%` } }))),
    h("figcaption", { class: "row apart" }, h("span", null, shortDay(days[0].day)), h("span", null, "today")));
}

const stripKey = (bot) => JSON.stringify(bot.beats.at(-1) || null);

function botRow(bot, strip) {
  const address = `#/agent/${encodeURIComponent(bot.agent)}`;
  const turns = bot.turns_today + bot.turns_free;
  return coloured(h("li", { class: "bot-row" },
    h("div", { class: "bot-who" }, avatar(bot.agent, bot.name), h("div", null, h("a", { class: "agent-name", href: address }, agentName(bot.agent)), h("div", null, onlineChip(bot)))),
    strip,
    h("div", { class: "bot-sums" }, h("b", null, money(bot.spent)), h("small", null, `${count(turns)} ${turns === 1 ? "turn" : "turns"} today`))), bot.agent);
}
