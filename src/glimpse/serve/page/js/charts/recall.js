/** The recall map: the context from left to right, darker where drafts read more; point at a part to see its text. */
import { draw, make } from "../dom.js";
import { percent } from "../format.js";

const [WIDTH, HEIGHT, STRIP] = [320, 50, 32];
const EXCERPT = 160;
const FAINTEST = 0.06;
const STEPS = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };

/** `shares`: of all reads, those of each equal part of the context; `context`: its text, or as near as the page has it. */
export function recallMap(shares, context) {
  const cells = shares.map((share, place) => cell(share / Math.max(...shares, Number.MIN_VALUE), place, shares.length));
  const said = make("p", { className: "hint", textContent: summary(shares) });
  const excerpt = make("blockquote", { hidden: true });
  const map = make("div", { className: "recall", tabIndex: 0 }, strip(cells), said, excerpt);
  said.setAttribute("aria-live", "polite");
  map.setAttribute("role", "group");
  map.setAttribute("aria-label", "Recall map. Arrow keys move along the context.");
  let here = -1;

  function show(place) {
    cells[here]?.classList.remove("here");
    here = place;
    cells[here].classList.add("here");
    said.textContent = `Part ${place + 1} of ${shares.length}: ${(100 * shares[place]).toFixed(1)} % of the reads. About here:`;
    excerpt.textContent = near(context, place / shares.length, (place + 1) / shares.length);
    excerpt.hidden = false;
  }

  map.addEventListener("pointermove", ({ target }) => cells.includes(target) && show(cells.indexOf(target)));
  map.addEventListener("pointerdown", ({ target }) => cells.includes(target) && show(cells.indexOf(target)));
  map.addEventListener("keydown", (event) => {
    if (!(event.key in STEPS) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    show(Math.max(0, Math.min(shares.length - 1, here + STEPS[event.key])));
  });
  return map;
}

function strip(cells) {
  return draw(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" },
    draw("rect", { class: "cell-room", width: WIDTH, height: STRIP }),
    ...cells,
    draw("text", { y: HEIGHT - 4 }, "start"),
    draw("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, "end of the context"),
  );
}

function cell(strength, place, count) {
  const width = WIDTH / count;
  const seen = strength ? FAINTEST + (1 - FAINTEST) * Math.sqrt(strength) : 0;
  return draw("rect", { class: "cell", x: place * width, width, height: STRIP, "fill-opacity": seen.toFixed(3) });
}

function summary(shares) {
  const sorted = [...shares].sort((one, other) => other - one);
  const half = sorted.findIndex((_, place) => total(sorted.slice(0, place + 1)) >= total(shares) / 2) + 1;
  return `Half of all reads fall on ${percent(half / shares.length)} of the context.`;
}

function total(shares) {
  return shares.reduce((sum, share) => sum + share, 0);
}

function near(context, from, to) {
  const part = context.slice(Math.floor(from * context.length), Math.ceil(to * context.length)).trim();
  return part.length > EXCERPT ? `${part.slice(0, EXCERPT)}…` : part || "(after what was asked: the answer itself)";
}
