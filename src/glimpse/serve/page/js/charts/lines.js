/** Something over time: one line or several on the same axes, from zero. */
import { draw } from "../dom.js";

const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [320, 120, 30, 6, 14, 18];

/** `series`: [{points: [{x, y}], name}], with x in seconds; `steps`: a value holds until the next. */
export function lineChart(series, { label, steps = false }) {
  const points = series.flatMap((one) => one.points);
  const [across, up] = [largest(points, "x"), largest(points, "y")];
  const place = ({ x, y }) => [
    LEFT + (x / across) * (WIDTH - LEFT - RIGHT),
    HEIGHT - BOTTOM - (y / up) * (HEIGHT - TOP - BOTTOM),
  ];
  const lines = series.map((one) => draw("path", { class: `line ${one.name}`, d: path(one.points.map(place), steps) }));
  const named = series.length > 1 ? series.flatMap(({ name }, place) => tag(name, LEFT + 60 + 90 * place)) : [];
  const view = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label };
  return draw("svg", view, ...axes(across, up), ...lines, ...named);
}

function largest(points, key) {
  return Math.max(...points.map((point) => point[key])) || 1;
}

function path(places, steps) {
  const [[x, y], ...rest] = places.map(([left, top]) => [left.toFixed(1), top.toFixed(1)]);
  return `M${x} ${y}${rest.map(([left, top]) => (steps ? `H${left}V${top}` : `L${left} ${top}`)).join("")}`;
}

/** A line and its name, below the axis. */
function tag(name, x) {
  const stroke = draw("path", { class: `line ${name}`, d: `M${x} ${HEIGHT - 8}h22` });
  return [stroke, draw("text", { class: `label-${name}`, x: x + 28, y: HEIGHT - 4 }, name)];
}

function axes(across, up) {
  const floor = HEIGHT - BOTTOM;
  return [
    draw("line", { class: "axis", x1: LEFT, y1: floor, x2: WIDTH - RIGHT, y2: floor }),
    draw("line", { class: "axis", x1: LEFT, y1: TOP, x2: WIDTH - RIGHT, y2: TOP }),
    draw("text", { x: LEFT - 6, y: floor + 4, "text-anchor": "end" }, "0"),
    draw("text", { x: LEFT - 6, y: TOP + 4, "text-anchor": "end" }, String(Math.round(up))),
    draw("text", { x: LEFT, y: HEIGHT - 4 }, "0 s"),
    draw("text", { x: WIDTH - RIGHT, y: HEIGHT - 4, "text-anchor": "end" }, `${across.toFixed(1)} s`),
  ];
}
