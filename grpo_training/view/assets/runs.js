"use strict";
// The choice of runs to compare. The address of a comparison has the runs' ids; an export has the pairs only.
{
  const SEPARATOR = "~";
  const chosen = [];
  const button = document.getElementById("compare");
  const comparisons = viewer.data("comparisons"); // null: a server makes any

  /** The runs in the order in which they were chosen, or in that of the page of an export; null if there is no page. */
  function ids() {
    if (comparisons === null) return chosen.length < 2 ? null : chosen.join(SEPARATOR);
    const pairs = [chosen, [...chosen].reverse()].map((pair) => pair.join(SEPARATOR));
    return pairs.find((pair) => comparisons.includes(pair)) ?? null;
  }

  function update() {
    button.disabled = ids() === null;
  }

  function mark() {
    for (const box of document.querySelectorAll(".choose")) {
      box.checked = chosen.includes(box.value);
      box.addEventListener("change", () => {
        if (box.checked) chosen.push(box.value);
        else chosen.splice(chosen.indexOf(box.value), 1);
        update();
      });
    }
    update();
  }

  button.addEventListener("click", () => {
    location.href = button.dataset.address.replace("RUNS", ids());
  });
  viewer.onKey("x", () => document.querySelector(".at .choose")?.click());
  viewer.onKey("c", () => button.click());
  viewer.onData(mark);
}
