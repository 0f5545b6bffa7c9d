// An agent's face, as the paths of a drawing. The first four differ in everything, further ones in how the parts are put together.
import { me } from "./me.js";

const HEADS = [
  "M6 9.5a3 3 0 0 1 3-3h6a3 3 0 0 1 3 3v5a3 3 0 0 1-3 3H9a3 3 0 0 1-3-3z",
  "M12 6a6.2 6.2 0 0 1 6.2 6.2c0 3.6-2.8 5.8-6.2 5.8s-6.2-2.2-6.2-5.8A6.2 6.2 0 0 1 12 6z",
  "M7.2 6.5h9.6l1.7 5.5-1.7 5.8H7.2L5.5 12z",
  "M6 8.2C8 6.6 16 6.6 18 8.2c.9 3 .6 6-1.2 9.6H7.2C5.4 14.2 5.1 11.2 6 8.2z",
];
const TOPS = ["M12 6.5V4.3m0-.9v.01", "M12 6c0-1.5.9-2.3 2.4-2.4", "M9 6.5V4.8m6 1.7V4.8", "M10 4.7a2.4 2.4 0 0 1 4 0M12 7V5.6"];
const EYES = ["M9.6 11.2v.6m4.8-.6v.6", "M8.8 11.7c.5-.9 1.3-.9 1.8 0m2.8 0c.5-.9 1.3-.9 1.8 0", "M9.6 11v1.1m4.8-1.1v1.1M8.6 9.4l1.4-.3m4 0 1.4.3", "M9.6 11.2v.6m3.8-.2h2"];
const MOUTHS = ["M10 14.8h4", "M9.8 14.6c1.2 1.2 3.2 1.2 4.4 0", "M10.4 14.5c.4 1.5 2.8 1.5 3.2 0z", "M10 15c1.6.4 3 .1 4-.9"];

export function facePaths(agent) {
  const place = Math.max(0, Object.keys(me.names).indexOf(agent)), turn = Math.floor(place / 4);
  return [HEADS, TOPS, EYES, MOUTHS].map((parts, kind) => parts[(place + kind * turn) % parts.length]);
}
