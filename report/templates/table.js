// The table of all points: filter, sort, show more rows, and a button that copies a command.
// What comes from records is only ever set as text, never as HTML.
"use strict";
(async () => {
  const PAGE = 50;
  const CHOICES = ["board", "sample", "kernel", "status"];
  const collator = new Intl.Collator("en", { numeric: true });
  const $ = (id) => document.getElementById(id);
  const packed = Uint8Array.from(atob($("data").textContent), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const { columns: headings, rows } = await new Response(unpacked).json();
  const isNumber = (at) => rows.some((row) => typeof row[at] === "number");
  const columns = Object.entries(headings)
    .map(([name, title], at) => ({ name, title, at, isNumber: isNumber(at) }))
    .filter(({ at }) => rows.some((row) => row[at] !== null));
  const byName = new Map(columns.map((column) => [column.name, column]));
  const sorted = { column: null, sign: 1 };
  let lines = null; // the texts of each row, to search in
  let shown = rows;

  function test(term) {
    const [, name, sign, limit] = /^(\w+)([<>])(-?[\d.]+)$/.exec(term) || [];
    const column = byName.get(name);
    if (!column?.isNumber || Number.isNaN(Number(limit))) {
      return (row, number) => lines[number].includes(term);
    }
    const way = sign === "<" ? -1 : 1;
    return (row) => row[column.at] !== null && way * (row[column.at] - limit) > 0;
  }

  function filter() {
    const texts = columns.filter((column) => !column.isNumber);
    lines ??= rows.map((row) => texts.map(({ at }) => row[at] ?? "").join("\n").toLowerCase());
    const tests = $("filter").value.toLowerCase().split(/\s+/).filter(Boolean).map(test);
    for (const { name, value } of $("choices").querySelectorAll("select")) {
      const { at } = byName.get(name);
      if (value) tests.push((row) => row[at] === value);
    }
    shown = rows.filter((row, number) => tests.every((passes) => passes(row, number)));
    sort();
  }

  // Rows without a value come last, in either direction.
  function sort() {
    if (sorted.column) {
      const { at, isNumber } = sorted.column;
      const compare = isNumber ? (a, b) => a - b : collator.compare;
      const values = shown.filter((row) => row[at] !== null);
      values.sort((a, b) => sorted.sign * compare(a[at], b[at]));
      shown = [...values, ...shown.filter((row) => row[at] === null)];
    }
    draw();
  }

  function sortBy(column, head) {
    const first = column.isNumber ? -1 : 1;
    sorted.sign = sorted.column === column ? -sorted.sign : first;
    sorted.column = column;
    for (const other of head.parentElement.cells) {
      if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
    }
    head.setAttribute("aria-sort", sorted.sign < 0 ? "descending" : "ascending");
    sort();
  }

  function element(name, attributes, ...content) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...content);
    return made;
  }

  function button(text, attributes, click) {
    const made = element("button", { type: "button", ...attributes }, text);
    made.addEventListener("click", () => click(made));
    return made;
  }

  function head() {
    const heads = columns.map((column) => {
      const kind = { "data-name": column.name, class: column.isNumber ? "number" : "" };
      const title = button(column.title, {}, (made) => sortBy(column, made.parentElement));
      return element("th", { scope: "col", "aria-sort": "none", ...kind }, title);
    });
    $("table").tHead.rows[0].append(element("th", { scope: "col" }, "Replay"), ...heads);
  }

  function choices() {
    for (const { name, title, at } of columns.filter((column) => CHOICES.includes(column.name))) {
      const values = [...new Set(rows.map((row) => row[at]))].filter((value) => value !== null);
      if (values.length < 2 || values.length > 500) continue;
      const options = values.sort(collator.compare).map((value) => element("option", { value }, value));
      const select = element("select", { name }, element("option", { value: "" }, "all"), ...options);
      select.addEventListener("change", filter);
      $("choices").append(element("label", {}, `${title} `, select));
    }
  }

  function line(row) {
    const command = row.at(-1);
    const about = { title: command, "aria-label": `Copy the command: ${command}` };
    const again = command ? [button("Copy", about, (made) => copy(made, command))] : [];
    const cells = columns.map((column) => cell(column, row[column.at] ?? ""));
    return element("tr", {}, element("td", {}, ...again), ...cells);
  }

  function cell({ name, isNumber }, text) {
    if (name === "kernel") return element("th", { scope: "row" }, text);
    if (name === "status") {
      return element("td", {}, element("span", { class: `badge ${text.split(" ")[0]}` }, text));
    }
    const words = ["params", "reason"].includes(name) ? "words" : "";
    return element("td", { class: isNumber ? "number" : words }, text);
  }

  function draw(most = PAGE) {
    $("table").tBodies[0].replaceChildren(...shown.slice(0, most).map(line));
    $("count").textContent = `${shown.length} of ${rows.length} points`;
    $("more").hidden = shown.length <= most;
    $("more").onclick = () => draw(most + PAGE);
  }

  async function copy(button, text) {
    const copied = await navigator.clipboard?.writeText(text).then(() => "Copied", () => null);
    button.textContent = copied ?? "Failed";
    $("count").textContent = `${copied ?? "Could not copy"}: ${text}`;
    setTimeout(() => (button.textContent = "Copy"), 2000);
  }

  head();
  choices();
  draw();
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("filters").addEventListener("reset", () => setTimeout(filter));
  $("filter").addEventListener("input", filter);
})();
