// The page sends its texts to the server that it comes from, and shows what that answers.

import { Editor, save } from "./editor.js";
import { takeFiles } from "./files.js";

const QUIET = 300;

const secret = document.querySelector("meta[name=mtlmon-secret]").content;
const outcome = document.getElementById("outcome");
const problems = document.getElementById("problems");
const stale = document.getElementById("stale");
const plot = document.getElementById("plot");
const result = document.getElementById("result");
const why = document.getElementById("why");
const reasons = document.getElementById("reasons");
const help = document.getElementById("help");
const examples = document.getElementById("examples");

const running = new Map();
let timer = 0;
let shownWidth = 0;
let asked = null;
// whether the texts are an example, for which the options of the command line are not
let isExample = false;
// the texts whose results are shown, and the lines that violate a policy
let shown = null;

const editors = {};
for (const pane of document.querySelectorAll(".pane")) {
  editors[pane.dataset.pane] = new Editor(pane, runSoon);
}

function texts() {
  return {
    policy: editors.policy.whole,
    log: editors.log.whole,
    policy_name: editors.policy.file,
    log_name: editors.log.file,
    is_example: isExample,
  };
}

// The answer of the server; null if a later request has taken the place of this one.
async function ask(action, body) {
  running.get(action)?.abort();
  const control = new AbortController();
  running.set(action, control);
  try {
    const response = await fetch(action, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-Mtlmon-Secret": secret },
      body: JSON.stringify(body),
      signal: control.signal,
    });
    const answer = await response.json();
    if (answer.superseded || running.get(action) !== control) {
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

// Say whether the results are those of the texts as they are now.
function setStale(isStale) {
  document.body.classList.toggle("stale", isStale);
  const words = isStale ? "Below are the results of the last texts that could be read." : "";
  if (stale.textContent !== words) {
    stale.textContent = words;
  }
}

function complain(message) {
  tell("problem", message);
  setStale(shown !== null);
}

function runSoon() {
  clearTimeout(timer);
  timer = setTimeout(run, QUIET);
}

async function run() {
  clearTimeout(timer);
  document.body.classList.add("busy");
  shownWidth = result.clientWidth - 2;
  const sent = texts();
  const answer = await ask("run", { ...sent, width: shownWidth });
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
  const isStale = answer.problems !== "" && shown !== null;
  if (!isStale) {
    showResults(answer);
    if (answer.problems === "") {
      shown = { texts: sent, lines: answer.lines };
    }
  }
  setStale(isStale);
  const of = (pane) => answer.places.filter((one) => one.pane === pane);
  const lines = isStale && shown.texts.log === sent.log ? shown.lines : answer.lines;
  editors.policy.mark([], of("policy"));
  editors.log.mark(lines, of("log"));
  if (!why.hidden && asked !== null && !isStale) {
    explain(asked, false);
  }
}

function showResults(answer) {
  const unfolded = [...result.querySelectorAll("details")].map((one) => one.open);
  plot.innerHTML = answer.plot;
  result.innerHTML = answer.result;
  result.querySelectorAll("details").forEach((one, index) => {
    one.open = unfolded[index] ?? false;
  });
}

async function explain(verdict, moves) {
  const answer = await ask("why", { ...(shown?.texts ?? texts()), verdict });
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

// Begin with other texts: nothing of what is shown is about them.
function begin(example) {
  isExample = example !== null;
  if (example !== null) {
    editors.policy.load(example.policy_name, example.policy);
    editors.log.load(example.log_name, example.log);
    shown = null;
  } else {
    examples.value = "";
  }
  document.title = `mtlmon: ${editors.policy.file}`;
  why.hidden = true;
  asked = null;
  run();
}

async function choose() {
  const number = examples.value;
  const isChanged = Object.values(editors).some((one) => one.isChanged);
  if (number === "" || (isChanged && !confirm("Replace what you have edited?"))) {
    examples.value = "";
    return;
  }
  try {
    const all = await (await fetch("examples.json")).json();
    begin(all[Number(number)]);
  } catch (error) {
    complain(`mtlmon does not answer: is mtlmon serve still running? (${error.message})`);
  }
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
  } else if (event.key === "Escape" && !why.hidden && !help.open) {
    close();
  }
});

document.getElementById("run").addEventListener("click", run);
document.getElementById("close").addEventListener("click", close);
document.getElementById("ask").addEventListener("click", () => help.showModal());
examples.addEventListener("change", choose);
takeFiles(editors, () => begin(null));
document.getElementById("export").addEventListener("click", async () => {
  const answer = await ask("export", texts());
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
  if (Object.values(editors).some((one) => one.isChanged)) {
    event.preventDefault();
  }
});

run();
