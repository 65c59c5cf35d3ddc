/** The keyboard shortcuts that the page shows below the prompt. */

export function bindKeys({ prompt, others, send, stop }) {
  for (const field of [prompt, ...others]) {
    field.addEventListener("keydown", (event) => {
      const plain = !event.shiftKey && !event.altKey && field === prompt;
      if (event.key !== "Enter" || event.isComposing || !(plain || event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      send();
    });
  }
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") stop();
    if (event.key === "/" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      prompt.focus();
    }
  });
}
