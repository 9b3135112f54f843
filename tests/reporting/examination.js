// What can be found out about a page in a browser, as a list of complaints.
() => {
  const complaints = [];
  const complain = (what, element) =>
    complaints.push(`${what}: ${(element?.outerHTML ?? "").slice(0, 160)}`);

  // Landmarks and headings: one of each, and no level is skipped.
  for (const name of ["header", "nav", "main", "h1"]) {
    const found = document.querySelectorAll(name);
    if (found.length !== 1) complaints.push(`${found.length} elements ${name}`);
  }
  let level = 0;
  for (const heading of document.querySelectorAll("h1,h2,h3,h4,h5,h6")) {
    const next = Number(heading.localName[1]);
    if (next > level + 1) complain("a level of headings is skipped", heading);
    if (!heading.textContent.trim()) complain("an empty heading", heading);
    level = next;
  }
  if (!document.documentElement.lang) complaints.push("no language");
  if (!document.title) complaints.push("no title");

  // Names of what one can operate or look at.
  const nameOf = (element) => {
    const references = (element.getAttribute("aria-labelledby") ?? "").split(/\s+/).filter(Boolean);
    const parts = references.map((id) => document.getElementById(id)?.textContent ?? "");
    const labels = [...(element.labels ?? [])].map((label) => label.textContent);
    return [element.getAttribute("aria-label") ?? "", ...parts, ...labels].join(" ").trim();
  };
  for (const element of document.querySelectorAll("svg, input, nav, section, figure, [role=region]"))
    if (!nameOf(element)) complain("no name", element);
  for (const element of document.querySelectorAll("a, button, summary"))
    if (!element.textContent.trim()) complain("no text", element);
  for (const table of document.querySelectorAll("table")) {
    if (!table.caption?.textContent.trim()) complain("no caption", table);
    for (const row of table.rows)
      if (row.cells.length !== table.rows[0].cells.length) complain("cells are missing", row);
  }
  // What scrolls can be reached by keys.
  for (const element of document.querySelectorAll("body *"))
    if (
      ["auto", "scroll"].includes(getComputedStyle(element).overflowX) &&
      element.scrollWidth > element.clientWidth &&
      element.tabIndex < 0
    )
      complain("scrolls, but not by keys", element);

  // Contrast of all text that is seen, as WCAG 2.1 computes it, level AA.
  const channels = (color) => color.match(/[\d.]+/g).map(Number);
  const luminance = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map((value) => {
      const share = value / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const groundOf = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = channels(getComputedStyle(each).backgroundColor);
      if (color.length < 4 || color[3] === 1) return color;
      if (color[3] !== 0) complain("a background that shines through", each);
    }
    return matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
  };
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let examined = 0;
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.getClientRects().length) continue;
    if (["SCRIPT", "STYLE", "title", "desc", "style"].includes(element.nodeName)) continue;
    const style = getComputedStyle(element);
    if (style.visibility === "hidden") continue;
    const text = luminance(channels(element.closest("svg") ? style.fill : style.color));
    const ground = luminance(groundOf(element));
    const ratio = (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (isLarge ? 3 : 4.5)) complain(`contrast ${ratio.toFixed(2)}`, element);
    examined += 1;
  }
  if (examined < 50) complaints.push(`only ${examined} texts are seen`);

  // Nothing sticks out at the sides.
  if (document.documentElement.scrollWidth > innerWidth)
    complaints.push(`${document.documentElement.scrollWidth} pixels wide in ${innerWidth}`);
  return complaints;
};
