"use strict";
// The page of a group: larger pictures, variables that agree, prompts as text, and the next rollout by key.
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

  /** The messages of a prompt as one text; with their roles if there are several. */
  function promptText(name) {
    const messages = [...document.querySelectorAll(`[data-prompt="${CSS.escape(name)}"]`)];
    const texts = messages.map((one) => one.querySelector("pre").textContent);
    if (texts.length === 1) return texts[0];
    return texts.map((text, place) => `${messages[place].dataset.role}:\n${text}`).join("\n\n");
  }

  /** Without a clipboard, as on a page over HTTP from another machine, the text is copied from an element. */
  async function copy(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      const area = viewer.element("textarea", { "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      const done = document.execCommand("copy");
      area.remove();
      return done;
    }
  }

  for (const button of document.querySelectorAll("[data-copy]")) {
    const label = button.textContent;
    button.addEventListener("click", async () => {
      const done = await copy(promptText(button.dataset.copy));
      button.textContent = done ? "Copied" : "The browser did not allow it";
      setTimeout(() => (button.textContent = label), 2000);
    });
  }

  function follow(relation) {
    document.querySelector(`a[rel=${relation}]`)?.click();
  }
  viewer.onKey("]", () => follow("next"));
  viewer.onKey("[", () => follow("prev"));
}
