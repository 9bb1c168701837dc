"use strict";
// What every page has: data for scripts, refresh while a run goes on, keyboard, theme.
const viewer = (() => {
  const initializers = [];

  /** The value that the page's template passed as json_script(name, value); null if there is none. */
  function data(name) {
    const element = document.getElementById(name);
    return element === null ? null : JSON.parse(element.textContent);
  }

  /** Call a function now and after each refresh of the page's data. */
  function onData(initialize) {
    initializers.push(initialize);
    initialize();
  }

  /** An element: tag, attributes, children. Texts are text nodes, never markup. */
  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (value === true) made.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
    }
    made.append(...children);
    return made;
  }

  // ---- refresh: the same page is requested again, and its elements with `data-live` and an id are replaced

  const FASTEST_MS = 2000;
  const IDLE_MS = 5000;
  const READING_MS = 250; // the server reads faster while no page is being made
  let tag = null;
  // What the server sent: scripts change the elements.
  for (const live of document.querySelectorAll("[data-live][id]")) live.source = live.outerHTML;

  async function refresh() {
    const started = performance.now();
    let wait = IDLE_MS;
    if (!document.hidden) {
      try {
        const response = await fetch(location.href, {
          cache: "no-store",
          headers: tag === null ? {} : { "If-None-Match": tag },
        });
        setConnected(true);
        if (response.ok) {
          tag = response.headers.get("ETag");
          replace(new DOMParser().parseFromString(await response.text(), "text/html"));
          wait = Math.max(FASTEST_MS, 10 * (performance.now() - started));
          if (isReading()) wait = Math.max(READING_MS, performance.now() - started);
        } else if (response.status === 304 || response.status === 404) {
          wait = FASTEST_MS;
        }
      } catch {
        setConnected(false);
      }
    }
    setTimeout(refresh, wait);
  }

  /** Whether the server is still reading the file of the run. */
  function isReading() {
    return document.querySelector("progress[data-reading]") !== null;
  }

  function replace(next) {
    const selected = document.getSelection();
    if (selected !== null && !selected.isCollapsed && document.querySelector("main").contains(selected.anchorNode)) {
      tag = null; // somebody is selecting text: ask again later
      return;
    }
    let changed = false;
    for (const fresh of next.querySelectorAll("[data-live][id]")) {
      const old = document.getElementById(fresh.id);
      if (old === null || old.source === fresh.outerHTML) continue;
      const open = new Set([...old.querySelectorAll("details[open][id]")].map((one) => one.id));
      const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
      const imported = document.importNode(fresh, true);
      imported.source = fresh.outerHTML;
      old.replaceWith(imported);
      for (const one of imported.querySelectorAll("details[id]")) one.open = open.has(one.id) || one.open;
      if (focused) document.getElementById(focused)?.focus();
      changed = true;
    }
    document.title = next.title;
    if (changed) for (const initialize of initializers) initialize();
  }

  function setConnected(is) {
    document.getElementById("connection").hidden = is;
  }

  // ---- keyboard

  /** The rows that j and k go through: visible elements with `data-row`. */
  function rows() {
    return [...document.querySelectorAll("[data-row]")].filter((row) => row.offsetParent !== null);
  }

  function move(step) {
    const all = rows();
    if (all.length === 0) return;
    const now = all.findIndex((row) => row.classList.contains("at"));
    const next = all[Math.max(0, Math.min(all.length - 1, now < 0 ? (step > 0 ? 0 : all.length - 1) : now + step))];
    for (const row of all) row.classList.remove("at");
    next.classList.add("at");
    next.scrollIntoView({ block: "nearest" });
    (next.querySelector("a, button") ?? next).focus({ preventScroll: true });
  }

  let after_g = false;
  const keys = {
    j: () => move(1),
    k: () => move(-1),
    "/": () => document.querySelector("input[type=search]")?.focus(),
    "?": () => toggleHelp(),
    t: () => switchTheme(),
  };

  /** Add a shortcut to a page. */
  function onKey(key, action) {
    keys[key] = action;
  }

  function toggleHelp() {
    const help = document.getElementById("help");
    if (help.open) help.close();
    else help.showModal();
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (after_g) {
      after_g = false;
      const link = document.querySelector(`[data-go="${CSS.escape(event.key)}"]`);
      if (link !== null) {
        event.preventDefault();
        link.click();
      }
    } else if (event.key === "g") {
      after_g = true;
      setTimeout(() => (after_g = false), 1500);
    } else if (Object.hasOwn(keys, event.key)) {
      event.preventDefault();
      keys[event.key]();
    }
  }

  // ---- theme

  function isDark() {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  function switchTheme() {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("viewer.theme", theme);
    } catch {
      // Storage is blocked: the choice holds for this page.
    }
    for (const initialize of initializers) initialize(); // charts take their colours from the theme
  }

  // ---- tables that are wider than the screen say which columns are hidden

  const TABLE_PADDING = 8;

  /** The names of the columns that are not wholly visible: of a number, a part would be another number. */
  function hiddenColumns(box) {
    const edge = box.getBoundingClientRect();
    const heads = [...box.querySelectorAll("thead tr:first-child > *")];
    const hidden = heads.filter((head) => {
      const { left, right } = head.getBoundingClientRect();
      return right > left && (right - TABLE_PADDING > edge.right || left + TABLE_PADDING < edge.left);
    });
    return hidden.map((head) => (head.getAttribute("aria-label") ?? head.innerText).trim().replace(/\s+/g, " ")).filter((name) => name !== "");
  }

  function sayHidden(box) {
    const names = box.scrollWidth > box.clientWidth + 1 ? hiddenColumns(box) : [];
    let note = box.previousElementSibling;
    if (!note?.classList.contains("hidden-columns")) {
      if (names.length === 0) return;
      note = element("p", { class: "note hidden-columns" });
      box.before(note);
    }
    note.textContent = names.length ? `Not visible, scroll the table sideways: ${names.join(", ")}` : "";
  }

  const tableSizes = new ResizeObserver((entries) => {
    for (const box of new Set(entries.map((entry) => entry.target.closest(".scroll")))) if (box !== null) sayHidden(box);
  });
  onData(() => {
    tableSizes.disconnect();
    for (const box of document.querySelectorAll(".scroll")) {
      tableSizes.observe(box);
      if (box.firstElementChild !== null) tableSizes.observe(box.firstElementChild);
      box.onscroll = () => sayHidden(box);
    }
  });

  document.addEventListener("keydown", pressed);
  document.getElementById("theme-switch").addEventListener("click", switchTheme);
  document.getElementById("help-switch").addEventListener("click", toggleHelp);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const initialize of initializers) initialize();
  });
  if ("server" in document.documentElement.dataset) setTimeout(refresh, isReading() ? READING_MS : FASTEST_MS);

  return { data, onData, onKey, element, isDark };
})();
