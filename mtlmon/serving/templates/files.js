// Files that the user opens: read in the browser, as texts.

import { written } from "./editor.js";

const MOST = Number(document.body.dataset.mostBytes);
const NEWLINE = 10;

// Load a file into an editor: all of it, or the first lines of a log that is too large.
export async function open(file, editor) {
  const isLarge = file.size > MOST;
  if (isLarge && editor.name === "policy") {
    return refuse(editor, `${file.name} has more than ${MOST >> 20} MiB, too much for a policy`);
  }
  let content = new Uint8Array(await file.slice(0, MOST).arrayBuffer());
  if (isLarge) {
    // whole lines only
    content = content.subarray(0, content.lastIndexOf(NEWLINE) + 1);
  }
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(content);
  } catch {
    text = "\0";
  }
  if (text.includes("\0")) {
    return refuse(editor, `${file.name} is not text in UTF-8, which a page could show`);
  }
  let notice = "";
  if (isLarge) {
    const size = (file.size / (1 << 20)).toFixed(1);
    const lines = written(text.split("\n").length - 1);
    notice = `The first ${lines} lines of ${file.name}, which has ${size} MiB; the page shows ${MOST >> 20} MiB`;
  }
  editor.load(file.name, text, notice);
  return true;
}

function refuse(editor, message) {
  editor.notice.textContent = message;
  return false;
}

// Let files be chosen and dropped. A file that is dropped goes to the pane that is below it; if
// there is none, or with other files, its name decides.
export function takeFiles(editors, whenOpened) {
  const take = async (file, editor) => {
    if (await open(file, editor)) {
      whenOpened();
    }
  };
  for (const editor of Object.values(editors)) {
    const input = editor.pane.querySelector("input[type=file]");
    editor.on("open", () => input.click());
    input.addEventListener("change", () => {
      for (const file of input.files) {
        take(file, editor);
      }
      // the same file can be chosen again
      input.value = "";
    });
  }
  const paneOf = (event) => event.target.closest?.(".pane") ?? null;
  const highlight = (pane) => {
    for (const { pane: one } of Object.values(editors)) {
      one.classList.toggle("dropping", one === pane);
    }
  };
  document.addEventListener("dragover", (event) => {
    if (event.dataTransfer.types.includes("Files")) {
      event.preventDefault();
      highlight(paneOf(event));
    }
  });
  document.addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) {
      highlight(null);
    }
  });
  document.addEventListener("drop", (event) => {
    const files = [...event.dataTransfer.files];
    highlight(null);
    if (!files.length) {
      return;
    }
    event.preventDefault();
    const pane = files.length === 1 ? paneOf(event) : null;
    for (const file of files) {
      const name = pane?.dataset.pane ?? (/\.mtl$/i.test(file.name) ? "policy" : "log");
      take(file, editors[name]);
    }
  });
}
