"use strict";
// The table of groups: filter, sort and pages, from the columns that the page holds. The state is in the address, after #.
{
  const PAGE_ROWS = 100;
  const MARKS = 16;
  const form = document.getElementById("filter");
  const body = document.querySelector("#groups tbody");
  const address = document.getElementById("groups").dataset.group;
  let names = [];
  let table = { line: [] };
  let searched = [];

  function state() {
    const found = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
    return { sort: "line", direction: "descending", at: "0", ...found };
  }

  function setState(changes) {
    const next = new URLSearchParams();
    for (const [key, value] of Object.entries({ ...state(), ...changes })) if (value !== "") next.set(key, value);
    history.replaceState(null, "", `#${next}`);
    show();
  }

  /** The column that a header sorts by. */
  function column(name) {
    if (name.startsWith("component:")) return table.components[name.slice("component:".length)] ?? [];
    if (name === "right") return table.right.map((right, row) => (table.checked[row] ? right / table.checked[row] : null));
    return table[name] ?? [];
  }

  function filters(now) {
    const wanted = [];
    const words = (now.q ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    if (words.length) wanted.push((row) => words.every((word) => searched[table.problem[row]].includes(word)));
    if (now.right === "all") wanted.push((row) => table.checked[row] > 0 && table.right[row] === table.checked[row]);
    if (now.right === "none") wanted.push((row) => table.checked[row] > 0 && table.right[row] === 0);
    if (now.right === "some") wanted.push((row) => table.right[row] > 0 && table.right[row] < table.checked[row]);
    if (now.sigma) wanted.push((row) => table.sigma[row] !== null && table.sigma[row] >= Number(now.sigma));
    if (now.outcome === "+ok") wanted.push((row) => table.not_ok[row] === 0);
    else if (now.outcome) wanted.push((row) => table.not_ok[row] !== 0 && Object.hasOwn(table.not_ok[row], now.outcome));
    if (now.component) {
      const values = table.components[now.component] ?? [];
      const bound = Number(now.bound ?? 0.5);
      const side = now.side === "ge" ? (value) => value >= bound : (value) => value <= bound;
      wanted.push((row) => typeof values[row] === "number" && side(values[row]));
    }
    return wanted;
  }

  /** The rows that pass the filters, sorted; missing values come last in both directions. */
  function chosen(now) {
    const wanted = filters(now);
    const rows = [];
    for (let row = 0; row < table.line.length; row += 1) if (wanted.every((test) => test(row))) rows.push(row);
    const values = column(now.sort);
    const key =
      now.sort === "problem" ? (row) => table.problems[values[row]][0] : (row) => values[row] ?? null;
    const sign = now.direction === "ascending" ? 1 : -1;
    return rows.sort((one, other) => {
      const [first, second] = [key(one), key(other)];
      if (first === second) return table.line[one] - table.line[other];
      if (first === null) return 1;
      if (second === null) return -1;
      return first < second ? -sign : sign;
    });
  }

  function cell(text, kind = "number") {
    return viewer.element("td", { class: kind }, text);
  }

  function decimal(value) {
    return value === null || value === undefined ? "–" : value.toFixed(3);
  }

  function problemCell(row) {
    const [name, text] = table.problems[table.problem[row]];
    const epoch = table.epoch[row] ? ` · epoch ${table.epoch[row] + 1}` : "";
    const link = table.page[row]
      ? viewer.element("a", { href: address.replace("LINE", table.line[row]), title: name }, name)
      : viewer.element("span", { title: name }, name);
    return viewer.element(
      "td",
      { class: "problem" },
      viewer.element("div", {}, link, viewer.element("span", { class: "note" }, epoch)),
      viewer.element("div", { class: "problem-text", title: text.slice(0, 600) }, text.slice(0, 240)),
    );
  }

  function rightCell(row) {
    const [right, checked] = [table.right[row], table.checked[row]];
    const found = cell("");
    if (checked > 0 && checked <= MARKS) {
      const marks = viewer.element("span", { class: "right-marks", "aria-hidden": "true" });
      for (let place = 0; place < checked; place += 1) marks.append(viewer.element("i", place < right ? { class: "yes" } : {}));
      found.append(marks);
    }
    found.append(viewer.element("span", {}, checked ? `${right}/${checked}` : "–"));
    return found;
  }

  function sigmaCell(row) {
    const found = cell("");
    if (table.teaches[row]) found.append(viewer.element("span", { class: "tag accent", title: "sigma > tau: this group teaches" }, decimal(table.sigma[row])));
    else found.append(decimal(table.sigma[row]));
    return found;
  }

  function outcomeCell(row) {
    const found = cell("", "wide");
    for (const [name, number] of Object.entries(table.not_ok[row] || {})) {
      found.append(viewer.element("span", { class: "tag warn" }, number > 1 ? `${name} ${number}×` : name), " ");
    }
    if (table.replaced[row]) found.append(viewer.element("span", { class: "tag" }, "replaced"));
    return found;
  }

  function line(row) {
    const made = viewer.element("tr", { "data-row": true, class: table.replaced[row] ? "replaced" : null });
    made.append(cell(String(table.line[row])), problemCell(row), rightCell(row), sigmaCell(row));
    made.append(cell(decimal(table.mean[row]), "number mean"));
    for (const name of names) {
      if (name.startsWith("component:")) made.append(cell(decimal(column(name)[row]), "number wide"));
    }
    made.append(cell(count(table.tokens[row]), "number wide"), cell(String(table.experiences[row]), "number wide"));
    made.append(outcomeCell(row), cell(table.time[row], "wide note"));
    return made;
  }

  function count(value) {
    return value.toLocaleString("en").replaceAll(",", "\u202f");
  }

  function show() {
    const now = state();
    const rows = chosen(now);
    const pages = Math.max(1, Math.ceil(rows.length / PAGE_ROWS));
    const at = Math.min(Math.max(0, Number.parseInt(now.at, 10) || 0), pages - 1);
    body.replaceChildren(...rows.slice(at * PAGE_ROWS, (at + 1) * PAGE_ROWS).map(line));
    const all = `${count(table.line.length)} groups`;
    document.getElementById("count").textContent = rows.length === table.line.length ? all : `${count(rows.length)} of ${all}`;
    document.getElementById("page-number").textContent = `${at + 1} / ${pages}`;
    document.getElementById("previous").disabled = at === 0;
    document.getElementById("next").disabled = at + 1 >= pages;
    for (const head of document.querySelectorAll("#groups th[data-sort]")) {
      if (head.dataset.sort === now.sort) head.setAttribute("aria-sort", now.direction);
      else head.removeAttribute("aria-sort");
    }
  }

  function load() {
    table = viewer.data("table");
    names = [...document.querySelectorAll("#groups th[data-sort]")].map((head) => head.dataset.sort);
    searched = table.problems.map(([name, text]) => `${name} ${text}`.toLowerCase());
    fill();
    show();
  }

  function fill() {
    const now = state();
    for (const field of form.elements) if (field.name && field.name in now) field.value = now[field.name];
  }

  form.addEventListener("input", () => setState({ ...Object.fromEntries(new FormData(form)), at: "0" }));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => setState({ ...Object.fromEntries(new FormData(form)), at: "0" })));
  document.getElementById("groups").addEventListener("click", (event) => {
    const head = event.target.closest("th[data-sort] button")?.parentElement;
    if (!head) return;
    const now = state();
    const flipped = now.direction === "descending" ? "ascending" : "descending";
    const first = head.dataset.sort === "problem" ? "ascending" : "descending";
    setState({ sort: head.dataset.sort, direction: now.sort === head.dataset.sort ? flipped : first, at: "0" });
  });
  const turn = (step) => setState({ at: String(Math.max(0, (Number.parseInt(state().at, 10) || 0) + step)) });
  document.getElementById("previous").addEventListener("click", () => turn(-1));
  document.getElementById("next").addEventListener("click", () => turn(1));
  viewer.onKey("n", () => document.getElementById("next").click());
  viewer.onKey("p", () => document.getElementById("previous").click());
  window.addEventListener("hashchange", () => {
    fill();
    show();
  });
  viewer.onData(load);
}
