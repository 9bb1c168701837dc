"use strict";
// Runs before the page is drawn, so that a chosen theme does not flash.
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("viewer.theme");
  } catch {
    // Storage is blocked: the system's theme is used.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
