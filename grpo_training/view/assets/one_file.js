"use strict";
// Pages in one file: shows the page whose path stands behind "#page=" in the address, or the first one.
// The file has each page as <script type="text/plain" data-page=PATH>, gzip in base64, and styles and scripts by their
// names in <script type="application/json" id="report-assets">. Another page is a reload: scripts start afresh.
(async () => {
  const FIRST = document.querySelector("script[data-page]").dataset.page;
  const assets = JSON.parse(document.getElementById("report-assets").textContent);

  /** The path and the element that an address names. */
  function wanted() {
    const [state, anchor] = location.hash.slice(1).split("#");
    return { path: new URLSearchParams(state).get("page"), anchor: anchor ?? "" };
  }

  async function unpacked(element) {
    const bytes = Uint8Array.from(atob(element.textContent), (character) => character.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new DOMParser().parseFromString(await new Response(stream).text(), "text/html");
  }

  function add(tag, name, place) {
    const made = document.createElement(tag);
    made.textContent = assets[name];
    place.append(made);
  }

  history.scrollRestoration = "manual"; // the page is drawn after the browser would restore it
  const path = wanted().path ?? FIRST;
  const stored = document.querySelector(`script[data-page="${CSS.escape(path)}"]`);
  if (stored === null) {
    location.hash = `page=${FIRST}`;
    location.reload();
    return;
  }
  const page = await unpacked(stored);
  document.title = page.title;
  for (const link of page.querySelectorAll("link[rel=stylesheet]")) add("style", link.getAttribute("href"), document.head);
  window.addEventListener("hashchange", (event) => { // before the listeners of the page's scripts
    const next = wanted();
    if (next.path === null) history.replaceState(null, "", event.oldURL); // a link within the page: "#rollout-2"
    else if (next.path !== path) location.reload();
    else document.getElementById(next.anchor)?.scrollIntoView();
  });
  const scripts = [...page.querySelectorAll("script[src]")].map((script) => script.getAttribute("src"));
  document.body = document.adoptNode(page.body);
  for (const name of scripts) add("script", name, document.body);
  document.getElementById(wanted().anchor)?.scrollIntoView();
})();
