"use strict";

// The page sends its texts to the server that it comes from, and shows what that answers.

const LINE = 20;
const TAB = 4;
const QUIET = 300;

const secret = document.querySelector("meta[name=mtlmon-secret]").content;
const outcome = document.getElementById("outcome");
const problems = document.getElementById("problems");
const plot = document.getElementById("plot");
const result = document.getElementById("result");
const why = document.getElementById("why");
const reasons = document.getElementById("reasons");

const running = new Map();
let timer = 0;
let shownWidth = 0;
let asked = null;

class Editor {
  constructor(pane) {
    this.name = pane.dataset.pane;
    this.file = pane.dataset.name;
    this.text = pane.querySelector("textarea");
    this.gutter = pane.querySelector(".gutter");
    this.marks = pane.querySelector(".marks");
    this.count = 0;
    this.text.addEventListener("scroll", () => this.follow());
    this.text.addEventListener("input", () => {
      this.number();
      this.marks.replaceChildren();
      changed = true;
      runSoon();
    });
    pane.querySelector("[data-do=copy]").addEventListener("click", () => this.copy());
    pane.querySelector("[data-do=save]").addEventListener("click", () => {
      save(this.file, this.text.value, "text/plain");
    });
    this.number();
  }

  get lines() {
    return this.text.value.split("\n");
  }

  number() {
    const count = this.lines.length;
    if (count !== this.count) {
      this.count = count;
      this.gutter.textContent = Array.from({ length: count }, (_, index) => index + 1).join("\n");
    }
    this.follow();
  }

  follow() {
    this.gutter.scrollTop = this.text.scrollTop;
    this.marks.style.transform = `translate(${-this.text.scrollLeft}px, ${-this.text.scrollTop}px)`;
  }

  mark(rows, places) {
    const lines = this.lines;
    const found = rows.map((line) => block("row", line, 0, ""));
    for (const { line, column, message } of places) {
      const text = lines[line - 1] ?? "";
      if (column !== null) {
        found.push(block("caret", line, width(text.slice(0, column - 1)), ""));
      } else {
        found.push(block("row", line, 0, ""));
      }
      found.push(block("words", line, width(text), message.split("\n")[0]));
    }
    this.marks.replaceChildren(...found);
  }

  go(line, column) {
    const lines = this.lines;
    let place = 0;
    for (const text of lines.slice(0, line - 1)) {
      place += text.length + 1;
    }
    const characters = Array.from(lines[line - 1] ?? "").slice(0, column - 1);
    place += characters.join("").length;
    this.text.focus();
    this.text.setSelectionRange(place, place);
    this.text.scrollTop = Math.max(0, (line - 1) * LINE - this.text.clientHeight / 2);
    this.text.scrollLeft = 0;
    this.follow();
  }

  async copy() {
    const { selectionStart, selectionEnd } = this.text;
    try {
      await navigator.clipboard.writeText(this.text.value);
      outcome.textContent = `${this.file} is copied`;
    } catch {
      this.text.select();
      document.execCommand("copy");
      this.text.setSelectionRange(selectionStart, selectionEnd);
    }
  }
}

// The width of a text in characters: tabs go to the next stop.
function width(text) {
  let found = 0;
  for (const character of text) {
    found += character === "\t" ? TAB - (found % TAB) : 1;
  }
  return found;
}

function block(kind, line, column, text) {
  const made = document.createElement("div");
  made.className = kind;
  made.textContent = text;
  made.style.top = `${(line - 1) * LINE}px`;
  if (kind !== "row") {
    made.style.left = `${column}ch`;
  }
  return made;
}

function save(name, text, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// The answer of the server; null if a later request has taken the place of this one.
async function ask(action, more) {
  running.get(action)?.abort();
  const control = new AbortController();
  running.set(action, control);
  const body = { policy: editors.policy.text.value, log: editors.log.text.value, ...more };
  try {
    const response = await fetch(action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Mtlmon-Secret": secret },
      body: JSON.stringify(body),
      signal: control.signal,
    });
    const answer = await response.json();
    if (response.status === 409 || running.get(action) !== control) {
      return null;
    }
    return answer;
  } catch (error) {
    if (control.signal.aborted) {
      return null;
    }
    return { error: `mtlmon does not answer: is mtlmon serve still running? (${error.message})` };
  }
}

function tell(kind, text) {
  outcome.className = `outcome ${kind}`;
  outcome.textContent = text;
}

function complain(message) {
  tell("problem", message);
}

function runSoon() {
  clearTimeout(timer);
  timer = setTimeout(run, QUIET);
}

async function run() {
  clearTimeout(timer);
  document.body.classList.add("busy");
  shownWidth = result.clientWidth - 2;
  const answer = await ask("run", { width: shownWidth });
  if (answer === null) {
    return;
  }
  document.body.classList.remove("busy");
  if (answer.error !== undefined) {
    complain(answer.error);
    return;
  }
  tell(answer.kind, answer.outcome);
  problems.innerHTML = answer.problems;
  const unfolded = [...result.querySelectorAll("details")].map((one) => one.open);
  plot.innerHTML = answer.plot;
  result.innerHTML = answer.result;
  result.querySelectorAll("details").forEach((one, index) => {
    one.open = unfolded[index] ?? false;
  });
  const of = (pane) => answer.places.filter((one) => one.pane === pane);
  editors.policy.mark([], of("policy"));
  editors.log.mark(answer.lines, of("log"));
  if (!why.hidden && asked !== null) {
    if (answer.problems === "") {
      explain(asked, false);
    } else {
      why.hidden = true;
    }
  }
}

async function explain(verdict, moves) {
  const answer = await ask("why", { verdict });
  if (answer === null) {
    return;
  }
  if (answer.error !== undefined) {
    complain(answer.error);
    return;
  }
  asked = verdict;
  reasons.innerHTML = answer.html;
  why.hidden = false;
  if (moves) {
    why.scrollIntoView({ block: "nearest" });
    why.focus({ preventScroll: true });
  }
}

function close() {
  const button = result.querySelector(`button[data-why="${asked}"]`);
  why.hidden = true;
  asked = null;
  button?.focus();
}

let changed = false;
const editors = {};
for (const pane of document.querySelectorAll(".pane")) {
  editors[pane.dataset.pane] = new Editor(pane);
}

document.addEventListener("click", (event) => {
  const verdict = event.target.closest("[data-why]");
  if (verdict !== null) {
    explain(verdict.dataset.why, true);
    return;
  }
  const place = event.target.closest("button[data-line]");
  if (place !== null) {
    const { pane, line, column } = place.dataset;
    editors[pane].go(Number(line), Number(column ?? 1));
  }
});

document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    run();
  } else if (event.key === "Escape" && !why.hidden) {
    close();
  }
});

document.getElementById("run").addEventListener("click", run);
document.getElementById("close").addEventListener("click", close);
document.getElementById("export").addEventListener("click", async () => {
  const answer = await ask("export", {});
  if (answer?.error !== undefined) {
    complain(answer.error);
  } else if (answer !== null) {
    save(`${editors.policy.file.replace(/\.[^.]*$/, "")}.html`, answer.page, "text/html");
  }
});

window.addEventListener("resize", () => {
  if (Math.abs(result.clientWidth - 2 - shownWidth) > 8) {
    runSoon();
  }
});

window.addEventListener("beforeunload", (event) => {
  if (changed) {
    event.preventDefault();
  }
});

run();
