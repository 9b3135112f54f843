// Conveniences; the page is complete without this script.
"use strict";

// The headings of these tables sort their rows.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const headings = [...table.tHead.rows[0].cells];
  const valueOf = (row, column) => {
    const cell = row.cells[column];
    return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent.trim();
  };
  const compare = (one, other) => {
    if (typeof one === "number" && typeof other === "number") return one - other;
    return String(one).localeCompare(String(other), undefined, { numeric: true });
  };
  if (body.rows.length < 2) continue;
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      // sort numbers from the largest, and names from the first
      const isNumber = heading.classList.contains("number");
      const before = heading.getAttribute("aria-sort");
      const ascends = before === null ? !isNumber : before === "descending";
      for (const each of headings) each.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", ascends ? "ascending" : "descending");
      const rows = [...body.rows];
      rows.sort((one, other) => compare(valueOf(one, column), valueOf(other, column)));
      body.append(...(ascends ? rows : rows.reverse()));
    });
  });
}

// Timelines show the content of a step that is chosen by keys, mouse or finger.
for (const figure of document.querySelectorAll("figure.timeline")) {
  const reader = figure.querySelector(".reader");
  const slider = reader.querySelector("input");
  const output = reader.querySelector("output");
  const link = reader.querySelector("a");
  const bars = new Map();
  const words = new Map();
  for (const bar of figure.querySelectorAll(".bar")) {
    bars.set(bar.dataset.index, bar);
    words.set(bar.dataset.index, bar.parentNode.querySelector("title").textContent);
  }
  let chosen;
  const tell = (index) => {
    const text = words.get(index) ?? "no violations in this step";
    output.textContent = text;
    slider.setAttribute("aria-valuetext", text);
    const target = bars.get(index)?.closest("a")?.getAttribute("href");
    link.hidden = !target;
    if (target) link.href = target;
  };
  const choose = (index) => {
    chosen?.classList.remove("chosen");
    chosen = bars.get(index);
    chosen?.classList.add("chosen");
    tell(index);
  };
  slider.addEventListener("input", () => choose(slider.value));
  figure.querySelector(".plot svg").addEventListener("pointermove", (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    const steps = Number(slider.max) + 1;
    const index = Math.floor(((event.clientX - box.left) / box.width) * steps);
    slider.value = String(Math.min(steps - 1, Math.max(0, index)));
    choose(slider.value);
  });
  reader.hidden = false;
  tell(slider.value);
}

// Unfold the violation that a link leads to.
const reveal = () => {
  const target = document.getElementById(location.hash.slice(1));
  if (!target?.closest(".violations")) return;
  const own = target.querySelector(":scope > details");
  if (own) own.open = true;
  for (let each = target.closest("details"); each; each = each.parentElement.closest("details"))
    each.open = true;
  target.scrollIntoView();
};
addEventListener("hashchange", reveal);
reveal();

// Unfold everything for printing.
let unfolded = [];
addEventListener("beforeprint", () => {
  unfolded = [...document.querySelectorAll("details:not([open])")];
  for (const each of unfolded) each.open = true;
});
addEventListener("afterprint", () => {
  for (const each of unfolded) each.open = false;
});
