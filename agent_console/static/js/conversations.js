import { empty, fill } from "./dom.js";

export async function render(root) {
  fill(root, empty("Not here yet."));
}
