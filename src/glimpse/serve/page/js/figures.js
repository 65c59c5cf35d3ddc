/** The figures of one answer: numbers, tokens over time, acceptance by depth, γ over time, the recall map. */
import { beyond, depthBars } from "./charts/bars.js";
import { lineChart } from "./charts/lines.js";
import { recallMap } from "./charts/recall.js";
import { byId, make } from "./dom.js";
import { percent, rate, seconds } from "./format.js";
import { showLegend } from "./legend.js";

/** Shows `runs`, of which the last is the one with drafts, if any has. Called again and again while it is written. */
export function showFigures(runs) {
  const run = runs.at(-1);
  showLegend(byId("legend"), run.tokens);
  byId("figures-none").hidden = true;
  showNumbers(run);
  fill("fig-progress", progress(runs));
  fill("fig-gamma", gamma(run));
  // These two come with the end of a run.
  fill("fig-depth", depths(run.speculation));
  fill("fig-recall", run.speculation?.recalled?.length ? [recallMap(run.speculation.recalled, run.context)] : []);
}

export function clearFigures() {
  showLegend(byId("legend"));
  byId("figures-none").hidden = false;
  byId("numbers").hidden = true;
  for (const id of ["fig-progress", "fig-gamma", "fig-depth", "fig-recall"]) fill(id, []);
}

function fill(id, parts) {
  const figure = byId(id);
  figure.hidden = !parts.length;
  figure.replaceChildren(figure.querySelector("figcaption"), ...parts);
}

function showNumbers(run) {
  const told = run.speculation;
  const rows = [["Speed", rate(run.rate)], ["First token after", seconds(run.firstAfter)]];
  if (told) {
    rows.push(["Drafter, pacer", [told.drafter, told.pacer].filter(Boolean).join(", ")]);
    if (told.acceptance) rows.push(["Acceptance rule", told.acceptance]);
    if (told.lossless === false) rows.push(["Lossy", `${lossyMode(told)}; may differ from plain decoding`]);
    if (!told.drafted && !run.plain) rows.push(["Drafts", "none made"]);
    if (told.drafted) {
      rows.push(["Drafts kept", `${told.accepted} of ${told.drafted} (${percent(told.accepted / told.drafted)})`]);
      rows.push(["Tokens a verification", told.mean_accepted.toFixed(2)]);
    }
  }
  byId("numbers").hidden = false;
  byId("numbers").replaceChildren(
    ...rows.flatMap(([name, value]) => [make("dt", { textContent: name }), make("dd", { textContent: value })]),
  );
}

/** What changes the text: "rule typical, strength 0.3" of "typical:0.3", "mode slowfast", or a drafter. */
function lossyMode({ lossy, drafter }) {
  if (!lossy) return `drafter ${drafter}`;
  const [name, strength] = lossy.split(":");
  return strength === undefined ? `mode ${name}` : `rule ${name}, strength ${strength}`;
}

function progress(runs) {
  const series = runs
    .filter((run) => run.progress.length > 1)
    .map((run) => ({
      name: run.plain ? "plain" : "drafted",
      points: run.progress.map(({ at, count }) => ({ x: at, y: count })),
    }));
  if (!series.length) return [];
  const ends = series.map(({ name, points: [...points] }) => `${name}: ${points.at(-1).y} in ${points.at(-1).x.toFixed(1)} s`);
  return [lineChart(series, { label: `Tokens written over time. ${ends.join("; ")}` })];
}

function gamma(run) {
  const values = run.gammas.map((one) => one.gamma);
  if (values.length < 2 || !values.some(Boolean)) return [];
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const points = run.gammas.map((one) => ({ x: one.at, y: one.gamma }));
  const label = `Draft length over time: between ${low} and ${high}, at last ${values.at(-1)}`;
  return [lineChart([{ name: "drafted", points }], { label, steps: true })];
}

function depths(told) {
  if (!told?.drafted_by_depth?.length) return [];
  const more = beyond(told.drafted_by_depth) ?? "Percent kept, by place in the draft.";
  const note = make("p", { className: "hint", textContent: more });
  return [depthBars(told.drafted_by_depth, told.accepted_by_depth), note];
}
