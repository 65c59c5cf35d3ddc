/** The legend: every kind of token with its mark, and how many of the last answer's are of it. */
import { make } from "./dom.js";
import { KINDS, kindOf } from "./sources.js";

export function showLegend(list, tokens = []) {
  const counts = Object.groupBy(tokens, ({ from }) => kindOf(from));
  list.replaceChildren(
    ...KINDS.filter(({ kind }) => kind !== "other" || counts.other).map(({ kind, label }) => row(kind, label, counts[kind])),
  );
}

function row(kind, label, tokens) {
  const mark = make("span", { className: "token", textContent: "words" });
  mark.dataset.kind = kind;
  mark.setAttribute("aria-hidden", "true");
  return make("li", {}, mark, label, make("span", { className: "count", textContent: tokens?.length ?? "" }));
}
