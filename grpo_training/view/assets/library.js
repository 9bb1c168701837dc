"use strict";
// The page of a library: operations that drop something ask once more, and a text that is being written stays.
document.addEventListener("submit", (event) => {
  const question = event.target.dataset.confirm;
  const button = event.target.querySelector("button");
  if (!question || button.dataset.asked) return;
  event.preventDefault();
  button.dataset.asked = button.textContent;
  button.textContent = question;
  button.classList.add("sure");
  button.addEventListener("blur", () => {
    button.textContent = button.dataset.asked;
    button.classList.remove("sure");
    delete button.dataset.asked;
  }, { once: true });
});
document.addEventListener("focusin", (event) => {
  // Elements without an id are not replaced when the page is refreshed.
  if (event.target.matches("textarea")) event.target.closest("[data-live]")?.removeAttribute("id");
});
