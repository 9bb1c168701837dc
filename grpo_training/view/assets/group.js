"use strict";
// The page of a group: larger pictures, variables that agree, and the next rollout by key.
{
  for (const button of document.querySelectorAll("[data-widen]")) {
    button.addEventListener("click", () => button.closest("article").classList.toggle("wide"));
  }

  const only = document.getElementById("only-different");
  function filter() {
    document.getElementById("values")?.classList.toggle("only-different", only.checked);
  }
  if (only !== null) {
    only.addEventListener("change", filter);
    filter();
  }

  function follow(relation) {
    document.querySelector(`a[rel=${relation}]`)?.click();
  }
  viewer.onKey("]", () => follow("next"));
  viewer.onKey("[", () => follow("prev"));
}
