// What the live page knows: channels, messages, the situation. One stream for all channels; every page keeps it open
// (main.js), and it ends soon after a sign-out. Nothing of it is stored.
import { get } from "./api.js";
import { channelText } from "./dom.js";
import { me } from "./me.js";
import { setPaused } from "./pause.js";

export const FIRST = "api/live/channels/first"; // messages of the first channel, which a page asks for ahead (ahead.js)
const LINGER = 4000; // milliseconds that the stream stays open without a listener
const HIDDEN = 10000; // and in a tab that nobody sees, since a browser opens only six connections to a server

let session = null;

// The session, opened if necessary; `listener(kind, detail)` hears of changes. Returns [session, leave].
export async function join(listener) {
  session ??= new Session();
  const mine = session;
  clearTimeout(mine.lingering);
  mine.listeners.add(listener);
  const leave = () => {
    mine.listeners.delete(listener);
    if (!mine.listeners.size) mine.lingering = setTimeout(() => mine.end(), LINGER);
  };
  try {
    await (mine.ready ??= mine.load());
  } catch (error) {
    leave();
    mine.end();
    throw error;
  }
  return [mine, leave];
}

// Ids are numbers too large for JavaScript, as texts.
const compare = (a, b) => a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);

class Session {
  channels = new Map();
  threads = new Map(); // channel → { list: messages, oldest first; next: where older ones begin; reading }
  situation = { thinking: [], conversations: {}, rooms: {}, times: [], stops: {}, mutes: {}, connected: true };
  seen = new Map(); // channel → the newest message that was on the screen
  listeners = new Set();
  person = null;
  readOnly = null;
  mostRounds = 0;
  up = true;
  #source = null;
  #first = ""; // the newest event when the session began
  #last = "";
  #timer = 0;
  #wait = 1000;
  #hidden = 0;
  #ended = false;

  constructor() {
    document.addEventListener("visibilitychange", this.#onVisible);
  }

  async load() {
    const answer = await get("api/live/channels");
    this.#take(answer);
    this.#first = this.#last = answer.cursor;
    this.#connect();
  }

  end() {
    this.#ended = true;
    this.#source?.close();
    clearTimeout(this.#timer);
    clearTimeout(this.#hidden);
    document.removeEventListener("visibilitychange", this.#onVisible);
    if (session === this) session = null;
  }

  // The messages of a channel, asked for once. `isFirst`: they were asked for ahead, at FIRST.
  async open(id, isFirst = false) {
    const known = this.threads.get(id);
    if (known) return known;
    const thread = { list: [], next: null, reading: null };
    this.threads.set(id, thread);
    thread.reading = this.#read(id, thread, null, isFirst);
    try {
      await thread.reading;
    } catch (error) {
      this.threads.delete(id);
      throw error;
    }
    return thread;
  }

  // Older ones; whether there were any.
  async older(id) {
    const thread = this.threads.get(id);
    if (!thread?.next || thread.reading) return false;
    thread.reading = this.#read(id, thread, thread.next);
    await thread.reading;
    return true;
  }

  unread(channel) {
    const seen = this.seen.get(channel.id);
    return seen !== undefined && compare(channel.newest, seen) > 0;
  }

  // A channel or room by name, even if it is no longer in the list.
  nameOf(id) {
    return channelText({ id, name: this.channels.get(id)?.name, room: this.situation.rooms[id]?.topic });
  }

  // { channel, until } if the bots are stopped there, or null. A thread is stopped with its channel.
  stopOf(channel) {
    const stopped = [channel.id, channel.parent].find((id) => id && this.situation.stops[id]);
    return stopped ? { channel: stopped, until: this.situation.stops[stopped] } : null;
  }

  markSeen(id) {
    const channel = this.channels.get(id);
    if (channel) this.seen.set(id, channel.newest);
  }

  async #read(id, thread, before = null, isFirst = false) {
    try {
      let page = isFirst ? await get(FIRST) : null;
      // What came since would be missing, if the list of channels already has it.
      if (page?.channel !== id || page.cursor !== this.#first) page = await get(`api/live/channels/${id}`, { before });
      thread.next = page.next;
      for (const message of page.items) put(thread.list, message);
    } finally {
      thread.reading = null;
    }
  }

  #take(answer) {
    this.channels = new Map(answer.items.map((channel) => [channel.id, channel]));
    for (const known of me.channels) known.name = this.channels.get(known.id)?.name ?? known.name; // the bots may just have started
    for (const channel of answer.items) if (!this.seen.has(channel.id)) this.seen.set(channel.id, channel.newest);
    this.situation = answer.situation;
    this.person = answer.person;
    this.readOnly = answer.read_only;
    this.mostRounds = answer.most_rounds;
  }

  #tell(kind, detail) {
    for (const listener of [...this.listeners]) listener(kind, detail);
  }

  // --- the stream ---

  #connect() {
    if (this.#ended) return;
    this.#source?.close();
    const source = (this.#source = new EventSource(`api/live/events?after=${encodeURIComponent(this.#last)}`));
    const on = (name, handle) => source.addEventListener(name, (event) => {
      if (event.lastEventId) this.#last = event.lastEventId;
      handle(JSON.parse(event.data));
    });
    source.onopen = () => { this.#wait = 1000; this.#setUp(true); };
    source.onerror = () => {
      this.#setUp(false);
      if (source.readyState !== EventSource.CLOSED) return; // the browser tries again
      renew();
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.#connect(), this.#wait);
      this.#wait = Math.min(this.#wait * 2, 15000);
    };
    on("message", (message) => this.#onMessage(message));
    on("gone", ({ channel, id }) => this.#onGone(channel, id));
    on("reread", ({ channel }) => this.#reread(channel));
    on("channels", () => this.#again(false));
    on("situation", (situation) => { this.situation = situation; setPaused(situation.paused); this.#tell("situation"); });
    on("turns", (newest) => this.#tell("turns", newest));
    on("reset", () => this.#again(true));
  }

  #setUp(up) {
    if (up === this.up) return;
    this.up = up;
    this.#tell("connection", up);
  }

  #onVisible = () => {
    clearTimeout(this.#hidden);
    if (document.hidden) this.#hidden = setTimeout(() => { this.#source?.close(); this.#source = null; }, HIDDEN);
    else if (this.#source === null && this.#last) this.#connect();
  };

  #onMessage(message) {
    const channel = this.channels.get(message.channel), thread = this.threads.get(message.channel);
    const fresh = channel !== undefined && compare(message.id, channel.newest) > 0;
    if (fresh) channel.newest = message.id;
    const beyond = thread?.next && thread.list.length && compare(message.id, thread.list[0].id) < 0;
    if (thread && !beyond) put(thread.list, message);
    if (!beyond) this.#tell("message", { message, fresh });
  }

  #onGone(channel, id) {
    const thread = this.threads.get(channel);
    const index = thread ? thread.list.findIndex((message) => message.id === id) : -1;
    if (index < 0) return;
    thread.list.splice(index, 1);
    this.#tell("gone", { channel, id });
  }

  async #reread(id) {
    const thread = this.threads.get(id);
    if (!thread) return this.#again(false);
    thread.list = [];
    await this.#read(id, thread).catch(() => {});
    this.#tell("reread", id);
  }

  // Ask for the list of channels again, and where much was missed for all messages.
  async #again(all) {
    try {
      if (all) await renew();
      this.#take(await get("api/live/channels"));
    } catch {
      return; // the stream comes back, or the page says that it does not
    }
    this.#tell("channels");
    this.#tell("situation");
    if (all) await Promise.all([...this.threads.keys()].map((id) => this.#reread(id)));
  }
}

// The program was started again, or asks to sign in again: what every page needs first is asked for again.
async function renew() {
  try {
    Object.assign(me, await get("api/me"));
  } catch {
    // get() has said so, or the program isn't responding
  }
}

function put(list, message) {
  let index = list.length;
  while (index > 0 && compare(list[index - 1].id, message.id) > 0) index--;
  if (index > 0 && list[index - 1].id === message.id) list[index - 1] = message;
  else list.splice(index, 0, message);
}
