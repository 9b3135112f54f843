// A text with line numbers and marks. Browsers are slow with long texts in a field, so that the
// field has only a part of those: some thousand lines, around the place that is looked at.

const LINE = 20;
const TAB = 4;
// what the field has at most of a long text, in lines and in characters
const LINES = 2000;
const CHARACTERS = 1 << 18;
// the lines that two parts, one after the other, have in common
const COMMON = 200;

export class Editor {
  constructor(pane, whenChanged) {
    this.name = pane.dataset.pane;
    this.pane = pane;
    this.text = pane.querySelector("textarea");
    this.gutter = pane.querySelector(".gutter");
    this.layer = pane.querySelector(".marks");
    this.part = pane.querySelector(".part");
    this.notice = pane.querySelector(".notice");
    this.whenChanged = whenChanged;
    this.isChanged = false;
    this.selectsAll = false;
    this.marks = { rows: [], places: [] };
    this.text.addEventListener("scroll", () => this.follow());
    this.text.addEventListener("beforeinput", () => this.replaceAll());
    this.text.addEventListener("input", () => this.edited());
    this.text.addEventListener("keydown", (event) => this.moved(event));
    this.text.addEventListener("copy", (event) => this.copyAll(event));
    this.text.addEventListener("wheel", (event) => this.wheeled(event), { passive: true });
    this.on("copy", () => this.copy());
    this.on("save", () => save(this.file, this.whole, "text/plain"));
    this.on("earlier", () => this.slide(-1));
    this.on("later", () => this.slide(1));
    const name = pane.querySelector(".name").textContent;
    this.load(name, pane.querySelector("template").content.textContent);
  }

  on(what, action) {
    this.pane.querySelector(`[data-do=${what}]`).addEventListener("click", action);
  }

  load(name, whole, notice = "") {
    this.file = name;
    this.pane.querySelector(".name").textContent = name;
    this.notice.textContent = notice;
    this.isChanged = false;
    this.marks = { rows: [], places: [] };
    // a field has line feeds only
    this.show(whole.replace(/\r\n?/g, "\n").split("\n"), 1);
    this.text.setSelectionRange(0, 0);
    this.text.scrollTop = 0;
  }

  // The whole text, of which the field may have a part.
  get whole() {
    return this.before + this.text.value + this.after;
  }

  get isPart() {
    return this.before !== "" || this.after !== "";
  }

  // Show the part around a line.
  show(lines, line) {
    let low = Math.max(0, Math.min(line, lines.length) - 1);
    let high = low + 1;
    let size = lines[low].length;
    while (high - low < LINES && size < CHARACTERS && (low > 0 || high < lines.length)) {
      if (high < lines.length) {
        size += lines[high].length + 1;
        high += 1;
      }
      if (low > 0 && high - low < LINES) {
        low -= 1;
        size += lines[low].length + 1;
      }
    }
    this.before = lines.slice(0, low).map((one) => `${one}\n`).join("");
    this.after = lines.slice(high).map((one) => `\n${one}`).join("");
    this.first = low;
    this.following = lines.length - high;
    this.count = 0;
    this.text.value = lines.slice(low, high).join("\n");
    this.number();
    this.draw();
  }

  number() {
    const count = occurrences(this.text.value, "\n") + 1;
    if (count !== this.count) {
      this.count = count;
      const numbers = Array.from({ length: count }, (_, index) => this.first + index + 1);
      this.gutter.textContent = numbers.join("\n");
      this.part.hidden = !this.isPart;
      const [first, last] = [this.first + 1, this.first + count].map(written);
      const total = written(this.first + count + this.following);
      this.part.querySelector("span").textContent = `Lines ${first} to ${last} of ${total}`;
      this.part.querySelector("[data-do=earlier]").disabled = this.before === "";
      this.part.querySelector("[data-do=later]").disabled = this.after === "";
    }
    this.follow();
  }

  edited() {
    this.isChanged = true;
    this.selectsAll = false;
    this.number();
    this.mark([], []);
    if (this.count > 4 * LINES || this.text.value.length > 4 * CHARACTERS) {
      this.center();
    }
    this.whenChanged();
  }

  // Where the caret is in the whole text: the line, and the characters before it there.
  get caret() {
    const text = this.text.value.slice(0, this.text.selectionStart);
    const start = text.lastIndexOf("\n") + 1;
    return [this.first + occurrences(text, "\n") + 1, text.length - start];
  }

  // Show the part around the caret.
  center() {
    const [line, column] = this.caret;
    const top = this.first * LINE + this.text.scrollTop;
    this.show(this.whole.split("\n"), line);
    this.place(line, column);
    this.text.scrollTop = top - this.first * LINE;
    this.follow();
  }

  // Put the caret behind so many characters of a line that is shown.
  place(line, column) {
    const lines = this.text.value.split("\n").slice(0, line - this.first - 1);
    const place = lines.reduce((sum, one) => sum + one.length + 1, 0) + column;
    this.text.setSelectionRange(place, place);
  }

  // Show the part before this one, or the one behind it; what is looked at stays where it is.
  slide(direction) {
    const top = this.first * LINE + this.text.scrollTop;
    const last = this.first + this.count;
    const half = LINES / 2 - COMMON;
    this.show(this.whole.split("\n"), direction > 0 ? last + half : this.first - half);
    this.text.scrollTop = top - this.first * LINE;
    this.follow();
  }

  wheeled(event) {
    const { scrollTop, scrollHeight, clientHeight } = this.text;
    if (event.deltaY > 0 && this.after !== "" && scrollTop + clientHeight >= scrollHeight - LINE) {
      this.slide(1);
    } else if (event.deltaY < 0 && this.before !== "" && scrollTop <= LINE) {
      this.slide(-1);
    }
  }

  moved(event) {
    const withControl = event.ctrlKey || event.metaKey;
    if (withControl && event.key.toLowerCase() === "a") {
      this.selectsAll = true;
    }
    if (!this.isPart || event.shiftKey) {
      return;
    }
    if (withControl && (event.key === "Home" || event.key === "End")) {
      const lines = this.whole.split("\n");
      const line = event.key === "Home" ? 1 : lines.length;
      event.preventDefault();
      this.go(line, event.key === "Home" ? 1 : lines[line - 1].length + 1);
    } else if (/^(Arrow|Page)(Up|Down)$/.test(event.key)) {
      const [line] = this.caret;
      const isNear = event.key.endsWith("Up")
        ? this.before !== "" && line - this.first < COMMON
        : this.after !== "" && this.first + this.count - line < COMMON;
      if (isNear) {
        this.center();
      }
    }
  }

  // Whether the whole text is selected, also what is not in the field.
  get hasAll() {
    const { selectionStart, selectionEnd, value } = this.text;
    return this.selectsAll && selectionStart === 0 && selectionEnd === value.length;
  }

  replaceAll() {
    if (this.isPart && this.hasAll) {
      this.before = this.after = "";
      this.first = this.following = this.count = 0;
    }
  }

  copyAll(event) {
    if (this.isPart && this.hasAll) {
      event.clipboardData.setData("text/plain", this.whole);
      event.preventDefault();
    }
  }

  follow() {
    const { scrollLeft, scrollTop } = this.text;
    this.gutter.scrollTop = scrollTop;
    this.layer.style.transform = `translate(${-scrollLeft}px, ${-scrollTop}px)`;
  }

  // Mark lines, and places with messages behind their lines.
  mark(rows, places) {
    this.marks = { rows, places };
    this.draw();
  }

  draw() {
    const isShown = (line) => line > this.first && line <= this.first + this.count;
    const rows = this.marks.rows.filter(isShown);
    const places = this.marks.places.filter((one) => isShown(one.line));
    const found = rows.map((line) => block("row", line - this.first, 0, ""));
    const lines = places.length ? this.text.value.split("\n") : [];
    for (const { line, column, message } of places) {
      const own = line - this.first;
      const text = lines[own - 1] ?? "";
      if (column !== null) {
        found.push(block("caret", own, width(text.slice(0, column - 1)), ""));
      } else {
        found.push(block("row", own, 0, ""));
      }
      found.push(block("words", own, width(text), message.split("\n")[0]));
    }
    this.layer.replaceChildren(...found);
  }

  // Put the caret at a character of a line, both counted from 1.
  go(line, column) {
    if (line <= this.first || line > this.first + this.count) {
      this.show(this.whole.split("\n"), line);
    }
    const text = this.text.value.split("\n")[line - this.first - 1] ?? "";
    this.text.focus();
    this.place(line, Array.from(text).slice(0, column - 1).join("").length);
    const top = (line - this.first - 1) * LINE;
    this.text.scrollTop = Math.max(0, top - this.text.clientHeight / 2);
    this.text.scrollLeft = 0;
    this.follow();
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(this.whole);
      this.notice.textContent = `${this.file} is copied`;
    } catch {
      this.notice.textContent = "the browser does not let the page copy: use Download";
    }
  }
}

export function save(name, text, kind) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

// A number with commas.
export function written(number) {
  return number.toLocaleString("en-US");
}

function occurrences(text, character) {
  let found = 0;
  for (let at = text.indexOf(character); at >= 0; at = text.indexOf(character, at + 1)) {
    found += 1;
  }
  return found;
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
