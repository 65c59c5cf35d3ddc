/** The theme: as the system says, or light, or dark. `early.js` applies it before the first paint. */
import { remember } from "./store.js";

const ORDER = ["auto", "light", "dark"];

export function themeSwitch(button) {
  const root = document.documentElement;
  const show = () => (button.textContent = `Theme: ${root.dataset.theme ?? "auto"}`);
  button.addEventListener("click", () => {
    const next = ORDER[(ORDER.indexOf(root.dataset.theme ?? "auto") + 1) % ORDER.length];
    if (next === "auto") delete root.dataset.theme;
    else root.dataset.theme = next;
    remember("theme", next);
    show();
  });
  show();
}
