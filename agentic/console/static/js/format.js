// Numbers, money and times as texts. Times are unix seconds, shown in the owner's time zone.
import { me } from "./me.js";

const number = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => number.format(value || 0);
// "1 turn", "3 turns", several(2, "entry", "entries").
export const several = (value, one, more = `${one}s`) => `${count(value)} ${value === 1 ? one : more}`;
export const tokens = (value) => (value < 10000 ? count(value) : compact.format(value));
export const percent = (share) => `${Math.round((share || 0) * 100)}%`;

export function seconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  const minutes = Math.floor(value / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(value % 60)} s`;
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} days`;
}

export function bytes(value) {
  const units = ["bytes", "KB", "MB", "GB", "TB"];
  let at = 0;
  for (; value >= 999.5 && at < units.length - 1; at++) value /= 1000;
  return `${at && value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

// --- money ---

export function money(dollars) {
  if (dollars === null || dollars === undefined) return "–";
  const size = Math.abs(dollars);
  if (size === 0) return "$0";
  if (size < 0.00005) return "< $0.0001";
  return `${dollars < 0 ? "-" : ""}$${size.toFixed(size < 0.01 ? 4 : size < 1 ? 3 : 2)}`;
}

// Money in columns: the same decimals in all rows.
const fixed = (value, digits) => `$${value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
export const cents = (value) => fixed(value, 2);
export const hundredths = (value) => (value ? fixed(value, 4) : "$0"); // of a cent
export const dollarsLike = (values) => (Math.max(0, ...values) >= 1 || values.every((value) => !value) ? cents : hundredths);

// --- times ---

const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });
const STEPS = [["day", 86400], ["hour", 3600], ["minute", 60]];

// "5 minutes ago", "in 3 hours".
export function ago(unix) {
  const past = unix - Date.now() / 1000;
  for (const [unit, size] of STEPS) if (Math.abs(past) >= size) return relative.format(Math.trunc(past / size), unit);
  return past > 5 ? `in ${Math.round(past)} seconds` : past < -5 ? `${Math.round(-past)} seconds ago` : "now";
}

const formats = new Map();

function inZone(options) {
  const key = me.timezone + JSON.stringify(options);
  if (!formats.has(key)) formats.set(key, zoned(options));
  return formats.get(key);
}

function zoned(options) {
  try {
    return new Intl.DateTimeFormat("en-US", { timeZone: me.timezone, hourCycle: "h23", ...options });
  } catch {
    return new Intl.DateTimeFormat("en-US", { hourCycle: "h23", ...options }); // a zone that this browser does not know
  }
}

export const dateTime = (unix) => inZone({ dateStyle: "medium", timeStyle: "medium" }).format(unix * 1000);
export const clock = (unix) => inZone({ hour: "2-digit", minute: "2-digit" }).format(unix * 1000);

// YYYY-MM-DD, as the record has it.
export function dayOf(unix) {
  const parts = inZone({ year: "numeric", month: "2-digit", day: "2-digit" }).formatToParts(unix * 1000);
  const part = (type) => parts.find((each) => each.type === type).value;
  return `${part("year")}-${part("month")}-${part("day")}`;
}

// "Today", "Yesterday", "Friday, November 20, 2026" of a YYYY-MM-DD.
export function dayName(day) {
  const now = Date.now() / 1000;
  if (day === dayOf(now)) return "Today";
  if (day === dayOf(now - 86400)) return "Yesterday";
  return new Date(`${day}T12:00:00Z`).toLocaleDateString("en-US", { dateStyle: "full", timeZone: "UTC" });
}

// "Nov 20" of a YYYY-MM-DD.
export const shortDay = (day) =>
  new Date(`${day}T12:00:00Z`).toLocaleDateString("en-US", { day: "numeric", month: "short", timeZone: "UTC" });

// "14:05" today, else with its day: "tomorrow 03:00", "Friday 03:00", "Dec 4, 03:00".
export function soon(unix) {
  const now = Date.now() / 1000, day = dayOf(unix);
  if (day === dayOf(now)) return clock(unix);
  if (day === dayOf(now + 86400)) return `tomorrow ${clock(unix)}`;
  if (unix - now > 6 * 86400) return `${shortDay(day)}, ${clock(unix)}`;
  return `${inZone({ weekday: "long" }).format(unix * 1000)} ${clock(unix)}`;
}

export const dayAndClock = (unix) => `${dayName(dayOf(unix))}, ${clock(unix)}`;

// "Today, 14:05" within a sentence: "today, 14:05".
export const inSentence = (text) => text.replace(/^(Today|Yesterday)/, (day) => day.toLowerCase());
