// The table of all points: filter, sort, pages, and a button that copies a command.
// What comes from records is only ever set as text, never as HTML.
"use strict";
(() => {
  const PAGE = 50;
  const CHOICES = ["board", "sample", "kernel", "status"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const columns = data.columns.filter(used);
  const byName = Object.fromEntries(columns.map((column) => [column.name, column]));
  const collator = new Intl.Collator("en", { numeric: true });
  const $ = (id) => document.getElementById(id);
  let shown = all();
  let page = 0;
  let sorted = { name: null, down: false };

  function all() {
    return Array.from({ length: data.rows }, (_, row) => row);
  }

  function used(column) {
    if (column.kind === "text") return column.texts.some((text) => text !== "");
    if (column.kind === "words") return column.values.some((words) => words.length);
    return column.values.some((value) => value !== null);
  }

  function show(column, row) {
    const value = column.values[row];
    if (column.kind === "text") return column.texts[value];
    if (column.kind === "words") return value.map((word) => data.words[word]).join(" ");
    return value === null ? "" : String(value);
  }

  function command(row) {
    const [frame, ...words] = data.commands[row];
    const [before, after] = data.frames[frame];
    return before + words.map((word) => data.words[word]).join(" ") + after || null;
  }

  // Filter.

  // A term is tried once on each different text, not on each row.
  function hits(term) {
    const has = (text) => text.toLowerCase().includes(term);
    const words = data.words.map(has);
    const texts = columns.filter((c) => c.kind === "text").map((c) => [c.values, c.texts.map(has)]);
    const coded = columns.filter((c) => c.kind === "words").map((c) => c.values);
    return (row) =>
      texts.some(([values, has]) => has[values[row]]) ||
      coded.some((values) => values[row].some((word) => words[word]));
  }

  function comparison(term) {
    const [, name, sign, limit] = /^(\w+)([<>])(-?[\d.]+)$/.exec(term) || [];
    const column = byName[name];
    if (!column || column.kind !== "number" || Number.isNaN(Number(limit))) return null;
    const values = column.values;
    return sign === "<"
      ? (row) => values[row] !== null && values[row] < Number(limit)
      : (row) => values[row] !== null && values[row] > Number(limit);
  }

  function filter() {
    const terms = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const tests = terms.map((term) => comparison(term) || hits(term));
    for (const select of $("choices").querySelectorAll("select")) {
      const values = byName[select.name].values;
      if (select.value) tests.push((row) => values[row] === Number(select.value));
    }
    shown = all().filter((row) => tests.every((test) => test(row)));
    sort();
    page = 0;
    draw();
  }

  // Sort. Rows without a value come last, in either direction.

  function keys(column) {
    if (column.kind === "number") return column.values;
    const texts = column.kind === "text" ? column.texts : data.words;
    const ranks = new Array(texts.length);
    const order = texts.map((_, i) => i).sort((a, b) => collator.compare(texts[a], texts[b]));
    order.forEach((text, rank) => (ranks[text] = rank));
    if (column.kind === "text") return column.values.map((value) => ranks[value]);
    return column.values.map((words) => words.map((word) => ranks[word]));
  }

  function compare(a, b) {
    if (!Array.isArray(a)) return a - b;
    for (let i = 0; i < a.length && i < b.length; i++) if (a[i] !== b[i]) return a[i] - b[i];
    return a.length - b.length;
  }

  function sort() {
    const column = byName[sorted.name];
    if (!column) return;
    const by = keys(column);
    const sign = sorted.down ? -1 : 1;
    shown.sort((a, b) => {
      if (by[a] === null || by[b] === null) return (by[a] === null) - (by[b] === null) || a - b;
      return sign * compare(by[a], by[b]) || a - b;
    });
  }

  function sortBy(name) {
    const numbers = byName[name].kind === "number";
    sorted = { name, down: sorted.name === name ? !sorted.down : numbers };
    for (const cell of $("table").tHead.rows[0].cells) {
      if (!cell.dataset.name) continue;
      const direction = sorted.down ? "descending" : "ascending";
      cell.setAttribute("aria-sort", cell.dataset.name === name ? direction : "none");
    }
    sort();
    page = 0;
    draw();
  }

  // Draw.

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== null) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  function head() {
    const row = $("table").tHead.rows[0];
    row.append(element("th", "Replay", { scope: "col" }));
    for (const column of columns) {
      const cell = element("th", null, { scope: "col", "aria-sort": "none", "data-name": column.name });
      const button = element("button", column.title, { type: "button" });
      button.addEventListener("click", () => sortBy(column.name));
      if (column.kind === "number") cell.className = "number";
      cell.append(button);
      row.append(cell);
    }
  }

  function choices() {
    for (const name of CHOICES) {
      const column = byName[name];
      if (!column || column.texts.length < 2 || column.texts.length > 500) continue;
      const select = element("select", null, { name });
      select.append(element("option", "all", { value: "" }));
      const order = column.texts.map((_, i) => i);
      order.sort((a, b) => collator.compare(column.texts[a], column.texts[b]));
      for (const i of order) select.append(element("option", column.texts[i], { value: i }));
      const label = element("label", `${column.title} `);
      label.append(select);
      $("choices").append(label);
      select.addEventListener("change", filter);
    }
  }

  function badge(text) {
    return element("span", text, { class: `badge ${text.split(" ")[0]}` });
  }

  function line(row) {
    const made = element("tr", null);
    const again = element("td", null);
    if (command(row) !== null) {
      const button = element("button", "Copy", {
        type: "button", title: command(row), "aria-label": `Copy the command: ${command(row)}`,
      });
      button.addEventListener("click", () => copy(button, command(row)));
      again.append(button);
    }
    made.append(again);
    for (const column of columns) {
      const named = column.name === "kernel";
      const cell = named ? element("th", null, { scope: "row" }) : element("td", null);
      if (column.name === "status") cell.append(badge(show(column, row)));
      else cell.textContent = show(column, row);
      if (column.kind === "number") cell.className = "number";
      if (["params", "reason"].includes(column.name)) cell.className = "words";
      made.append(cell);
    }
    return made;
  }

  function draw() {
    const pages = Math.max(1, Math.ceil(shown.length / PAGE));
    const rows = shown.slice(page * PAGE, (page + 1) * PAGE);
    $("table").tBodies[0].replaceChildren(...rows.map(line));
    $("count").textContent = `${shown.length} of ${data.rows} points`;
    $("page").textContent = `Page ${page + 1} of ${pages}`;
    $("previous").disabled = page === 0;
    $("next").disabled = page + 1 >= pages;
  }

  // Copy.

  async function copy(button, text) {
    let copied = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      copied = copyFromField(button, text);
    }
    button.textContent = copied ? "Copied" : "Failed";
    $("count").textContent = copied ? `Copied: ${text}` : `Could not copy: ${text}`;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  }

  // Where the clipboard is not there for pages from the disk.
  function copyFromField(button, text) {
    const field = element("textarea", text);
    button.after(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    button.focus();
    return copied;
  }

  head();
  choices();
  draw();
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", () => setTimeout(filter));
  $("filter").addEventListener("input", filter);
  $("previous").addEventListener("click", () => { page -= 1; draw(); });
  $("next").addEventListener("click", () => { page += 1; draw(); });
})();
