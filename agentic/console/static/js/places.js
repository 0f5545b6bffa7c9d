// Where each page of this tab's history was scrolled to, so that going back leads to the same place in a list.
const places = new Map(); // the number of an entry of the history → pixels
const start = Date.now(); // numbers of an earlier load are unknown
const PAGES = 30; // of a list that are loaded again at most
let count = 0, here = null;

history.scrollRestoration = "manual";

// An address was chosen: remembers the place on the page that is left. Returns the place of the new one, or null if it is new.
export function arrive() {
  if (here !== null) places.set(here, scrollY);
  here = history.state?.place ?? `${start}-${++count}`;
  history.replaceState({ ...history.state, place: here }, "");
  return places.get(here) ?? null;
}

// Scrolls there, and loads what was below "Older" until the list is long enough. `isHere()`: the page is still shown.
export async function goBack(place, isHere) {
  for (let n = 0; n < PAGES && document.documentElement.scrollHeight - innerHeight < place; n++) {
    const older = document.querySelector("main .older");
    if (!older) break;
    await older.more();
    if (!isHere()) return;
  }
  scrollTo(0, place);
}
