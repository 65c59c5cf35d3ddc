/** The text of a run as marked tokens, laid into the page once a frame. */
import { make } from "./dom.js";
import { kindOf } from "./sources.js";

export class TokenText {
  constructor(element) {
    this.element = element;
    this.tokens = [];
    this.pending = [];
    this.frame = 0;
    TEXTS.set(element, this);
  }

  push(tokens) {
    this.pending.push(...tokens);
    // A hidden tab runs no frames; then the tokens wait here until it is seen or the run ends.
    this.frame ||= requestAnimationFrame(() => this.flush());
  }

  flush() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.element.append(...this.pending.flatMap((token, place) => marked(token, this.pending[place - 1] ?? this.tokens.at(-1))));
    this.tokens.push(...this.pending);
    this.pending = [];
  }
}

const TEXTS = new WeakMap();

/** The TokenText that an element shows, if it shows one. */
export const textOf = (element) => TEXTS.get(element);

function marked(token, before) {
  const kind = kindOf(token.from);
  // The space before a word is marked only inside a stretch of one kind: at its beginning it may stand at a line's end.
  const gap = before && kindOf(before.from) === kind ? "" : token.text.match(/^ +(?=\S)/)?.[0] ?? "";
  const span = make("span", { className: "token", textContent: token.text.slice(gap.length) });
  span.dataset.kind = kind;
  return gap ? [gap, span] : [span];
}
