/** The conversation: takes a question, runs it, shows its turn, and remembers the messages of a chat. */
import { byId } from "./dom.js";
import { clearFigures, showFigures } from "./figures.js";
import { play, runsOf } from "./player.js";
import { contextOf } from "./request.js";
import { makeTurn, showVerdict } from "./turn.js";

const FIGURES_EVERY = 250; // ms: charts are redrawn whole

export class Conversation {
  /** `say`: the Announcer. */
  constructor(say) {
    this.say = say;
    this.messages = [];
    this.stopper = null;
  }

  get busy() {
    return this.stopper !== null;
  }

  stop() {
    this.stopper?.abort();
  }

  clear() {
    this.messages = [];
    byId("turns").replaceChildren();
    this.say.clear();
    clearFigures();
  }

  /** Asks and shows. Returns the text of the answer, whole or as far as it came; throws what went wrong. */
  async ask({ asked, note, request, options }) {
    const plays = runsOf(request, { ...options, context: contextOf(request) });
    const runs = plays.map(({ run }) => run);
    const turn = makeTurn(asked, note, runs);
    byId("turns").append(turn.element);
    turn.element.scrollIntoView({ block: "start" });
    this.stopper = new AbortController();
    try {
      for (const [place, one] of plays.entries()) {
        if (!this.stopper.signal.aborted) await this.#play(one, turn.panes[place], runs, options.key);
        else one.run.end("stopped");
      }
    } finally {
      this.stopper = null;
      for (const pane of turn.panes) this.#close(pane);
      if (begun(runs).length) showFigures(begun(runs));
      else turn.element.remove(); // nothing came: what went wrong is said at the top
    }
    const follow = turn.panes.at(-1).endInView;
    this.say.tell(showVerdict(turn, runs) ?? `Answer ${runs.at(-1).state}.`);
    if (follow) turn.element.lastElementChild.scrollIntoView({ block: "nearest" });
    return runs.at(-1).text;
  }

  async #play(one, pane, runs, key) {
    const spoken = one.run === runs.at(-1);
    let drawn = 0;
    pane.begin();
    const see = (tokens) => {
      const follow = pane.endInView;
      pane.show(tokens);
      if (follow) pane.follow();
      if (spoken) for (const { text } of tokens) this.say.text(text);
      if (tokens.length && performance.now() - drawn > FIGURES_EVERY) {
        drawn = performance.now();
        showFigures(begun(runs));
      }
    };
    this.say.tell(`${one.run.name}: reading the prompt.`);
    await play(one, { key, signal: this.stopper.signal, see });
    if (spoken) this.say.flush();
  }

  #close(pane) {
    if (pane.run.running) pane.run.end("stopped");
    pane.show();
  }
}

function begun(runs) {
  return runs.filter((run) => run.first !== null);
}
