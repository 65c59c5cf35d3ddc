/** What a token is, for who points at it or walks along an answer with the arrow keys. */
import { described } from "./sources.js";
import { textOf } from "./tokens.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/** `area` holds the answers, `tip` is shown beside the token; `tell` says it aloud. */
export function inspector(area, tip, tell) {
  let here = null;

  function leave() {
    here?.classList.remove("here");
    here = null;
    tip.hidden = true;
  }

  function show(span) {
    leave();
    const token = textOf(span.parentElement)?.tokens[[...span.parentElement.children].indexOf(span)];
    if (!token) return null;
    here = span;
    span.classList.add("here");
    tip.textContent = described(token);
    tip.hidden = false;
    beside(span);
    return tip.textContent;
  }

  function beside(span) {
    const box = span.getClientRects()[0] ?? span.getBoundingClientRect();
    const room = document.documentElement.clientWidth - tip.offsetWidth - 8;
    tip.style.left = `${Math.max(8, Math.min(box.left, room)) + scrollX}px`;
    tip.style.top = `${box.bottom + scrollY + 6}px`;
  }

  function step(event) {
    const text = event.target;
    if (!(event.key in STEPS) || !textOf(text) || event.ctrlKey || event.altKey || event.metaKey) return;
    const spans = text.children;
    if (!spans.length) return;
    event.preventDefault();
    const from = here?.parentElement === text ? [...spans].indexOf(here) : STEPS[event.key] > 0 ? -1 : spans.length;
    const place = Math.max(0, Math.min(spans.length - 1, from + STEPS[event.key]));
    spans[place].scrollIntoView({ block: "nearest" });
    tell(show(spans[place]));
  }

  area.addEventListener("pointerover", (event) => (event.target.matches(".token") ? show(event.target) : leave()));
  area.addEventListener("pointerleave", leave);
  area.addEventListener("keydown", step);
  area.addEventListener("focusout", leave);
  return { leave };
}
