// What doesn't fit its window, as lines for a person. An expression, evaluated in the page.
(async () => {
  for (let n = 0; n < 2; n++) await new Promise(requestAnimationFrame); // it was resized just now
  const found = [];
  const name = (node) => `${node.tagName.toLowerCase()}.${node.className.baseVal ?? node.className} “${(node.getAttribute("aria-label") || node.textContent).trim().slice(0, 30)}”`;
  const scrolls = (node, axis) => {
    for (let each = node.parentElement; each; each = each.parentElement) if (["auto", "scroll"].includes(getComputedStyle(each)[`overflow-${axis}`])) return each;
    return null;
  };
  const seen = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !node.closest(".hidden, .skip, [hidden]");
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`the page is ${wide} pixels wide`);

  // Each control is inside the window or inside a box that scrolls, and nothing else is over it.
  const controls = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")].filter(seen);
  for (const node of controls) {
    const box = node.getBoundingClientRect();
    if (!box.width || !box.height) continue;
    if ((box.left < -1 || box.right > innerWidth + 1) && !scrolls(node, "x")) found.push(`${name(node)} is beyond the window's edge`);
    if (node.matches("[tabindex='0']")) continue;
    if (getComputedStyle(node).position !== "fixed" && !node.closest(".nav, .top")) node.scrollIntoView({ block: "center", behavior: "instant" });
    for (const line of node.getClientRects()) {
      for (const [x, y] of [[0.5, 0.5], [0.1, 0.2], [0.9, 0.8]]) {
        const at = [line.left + line.width * x, line.top + line.height * y];
        const hit = document.elementFromPoint(...at);
        const over = hit?.closest("a[href], button, input, select, textarea, summary, .top, .nav, .pause-bar, .toast");
        if (over && over !== node && !over.contains(node) && !node.contains(over) && !over.querySelector("label")?.contains(node)) found.push(`${name(over)} is over ${name(node)}`);
      }
    }
    if (node.matches("button, .button, a.chip, .agent, .turn-link") && (box.width < 24 || box.height < 24)) found.push(`${name(node)} is only ${Math.round(box.width)} × ${Math.round(box.height)} pixels`);
  }

  // No text is squeezed to a letter or two per line.
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const text = walker.currentNode, words = text.data.trim();
    if (words.length < 8 || !seen(text.parentElement)) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const lines = new Set([...range.getClientRects()].map((line) => Math.round(line.top))).size;
    if (lines > 3 && words.length / lines < 5) found.push(`${name(text.parentElement)} has ${lines} lines of few letters`);
  }
  const head = document.querySelector(".live-head");
  if (head && head.offsetHeight > innerHeight / 4) found.push(`the live page's head is ${head.offsetHeight} pixels tall`);
  scrollTo(0, 0);
  return [...new Set(found)];
})()
