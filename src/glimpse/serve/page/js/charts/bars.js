/** Acceptance by depth: of the rounds that drafted so deep, the share whose token there was kept. */
import { draw } from "../dom.js";
import { percent } from "../format.js";

const [WIDTH, HEIGHT, TOP, BOTTOM] = [320, 120, 16, 18];
const MOST = 16;

/** `drafted`, `accepted`: counts, one for each depth from 1. */
export function depthBars(drafted, accepted) {
  const shares = drafted.slice(0, MOST).map((count, place) => (count ? accepted[place] / count : 0));
  const room = WIDTH / Math.max(shares.length, 4);
  const said = shares.map((share, place) => `${place + 1}: ${percent(share)} of ${drafted[place]}`).join("; ");
  const label = `Accepted by depth. ${said}`;
  return draw(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, class: shares.length > MOST / 2 ? "dense" : "" },
    ...shares.flatMap((share, place) => bar(share, place, room)),
  );
}

/** What is not drawn, or null. */
export function beyond(drafted) {
  return drafted.length > MOST ? `Depths past ${MOST} are left out; drafts went down to ${drafted.length}.` : null;
}

function bar(share, place, room) {
  const [x, width, tall] = [place * room + room * 0.12, room * 0.76, HEIGHT - TOP - BOTTOM];
  const [top, middle] = [TOP + tall * (1 - share), x + width / 2];
  const text = { x: middle, "text-anchor": "middle" };
  return [
    draw("rect", { class: "bar-room", x, y: TOP, width, height: tall, rx: 2 }),
    draw("rect", { class: "bar", x, y: top, width, height: tall * share, rx: 2 }),
    draw("text", { ...text, class: "value", y: top - 4 }, String(Math.round(100 * share))),
    draw("text", { ...text, y: HEIGHT - 4 }, String(place + 1)),
  ];
}
