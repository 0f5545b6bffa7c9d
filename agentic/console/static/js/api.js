// Talks to the console's own server. Addresses are relative, so that a proxy may serve it below a folder.
import { toast } from "./dom.js";
import { me } from "./me.js";

export class ApiError extends Error {
  // `field`: the name of the wrong value, if any.
  constructor(status, text, field = null) {
    super(text);
    this.status = status;
    this.field = field;
  }
}

// get("api/turns", { agent: "claude", before: null }): missing values are left out. Throws ApiError.
export function get(path, query = {}, options = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const search = new URLSearchParams(given).toString();
  return call(search ? `${path}?${search}` : path, options);
}

// post("api/actions/stop", { channel: "1" }). Throws ApiError.
export function post(path, body = {}) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": me.csrf };
  return call(path, { method: "POST", headers, body: JSON.stringify(body) });
}

// As post; a failure becomes a toast, and the answer null.
export async function act(path, body) {
  try {
    return await post(path, body);
  } catch (error) {
    toast(error.message, "bad");
    return null;
  }
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "The console isn't responding. Is the program still running?");
  }
  const body = await response.json().catch(() => ({}));
  if (response.ok) return body;
  if (response.status === 401 && !path.endsWith("api/login")) window.dispatchEvent(new Event("signed-out"));
  throw new ApiError(response.status, sentence(body.error || `The console answered ${response.status}`), body.field);
}

function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
