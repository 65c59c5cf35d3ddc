/** One question and its answer, or its two answers side by side, in the page. */
import { make } from "./dom.js";
import { counted, rate, seconds } from "./format.js";
import { TokenText } from "./tokens.js";
import { verdict } from "./verdict.js";

const ENDINGS = { stop: "came to its end", length: "reached max tokens", abort: "cut short" };

/** What was asked, with an empty place for each run. */
export function makeTurn(asked, note, runs) {
  const question = make("div", { className: "asked" }, make("p", { textContent: asked }));
  if (note) question.append(make("span", { className: "hint", textContent: note }));
  const panes = runs.map((run) => new Pane(run));
  const holder = make("div", { className: "panes" }, ...panes.map((pane) => pane.element));
  holder.dataset.count = panes.length;
  const element = make("article", { className: "turn" }, question, holder);
  return { element, panes };
}

/** Below two answers, once both are there: which was faster. */
export function showVerdict(turn, runs) {
  const said = runs.length === 2 ? verdict(...runs) : null;
  if (!said) return null;
  const detail = make("small", { textContent: said.detail });
  turn.element.append(make("p", { className: "verdict", textContent: said.headline }, detail));
  return said.headline;
}

/** The answer of one run: its name, its speed, its text, and how it ended. */
class Pane {
  constructor(run) {
    this.run = run;
    this.rate = make("span", { className: "rate" });
    this.text = make("div", { className: "text", tabIndex: 0 });
    this.state = make("p", { className: "state hint" });
    this.text.setAttribute("role", "group");
    this.text.setAttribute("aria-label", `Answer, ${run.name}. Arrow keys go token by token.`);
    const head = make("header", {}, make("h3", { textContent: run.name }), this.rate);
    this.element = make("section", { className: "pane" }, head, this.text, this.state);
    this.tokens = new TokenText(this.text);
    this.text.dataset.waiting = "waiting for its turn…";
    this.show();
  }

  /** Whether who reads is at the end of this answer, and so wants to see it grow. */
  get endInView() {
    const { top } = this.state.getBoundingClientRect();
    return top > 0 && top < innerHeight;
  }

  follow() {
    this.tokens.flush();
    this.state.scrollIntoView({ block: "nearest" });
  }

  begin() {
    this.text.dataset.waiting = "reading the prompt…";
  }

  /** Brings the pane up to date, with the tokens that came. */
  show(tokens = []) {
    const { run } = this;
    this.element.dataset.state = run.state;
    this.rate.textContent = run.rate === null ? "" : rate(run.rate);
    if (tokens.length) this.tokens.push(tokens);
    if (!run.running) this.tokens.flush();
    this.state.textContent = this.#told();
  }

  #told() {
    const { run } = this;
    const written = counted(run.tokens.length, "token");
    if (run.state === "waiting") return "";
    if (run.state === "streaming") return written;
    if (run.state === "stopped") return `${written} · stopped`;
    if (run.state === "failed") return `${written} · broken off`;
    const ending = ENDINGS[run.finishReason] ?? run.finishReason ?? "ended";
    return `${written} · first after ${seconds(run.firstAfter)} · ${ending}`;
  }
}
