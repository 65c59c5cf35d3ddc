/** What a screen reader hears: the answer sentence by sentence (single tokens would chatter), and what happens. */

const SENTENCE = /^[\s\S]*[.!?:;\n](?=\s|$)/;
const LONGEST = 200;

export class Announcer {
  constructor(log, status) {
    this.log = log;
    this.status = status;
    this.waiting = "";
  }

  tell(line) {
    this.status.textContent = line;
  }

  text(piece) {
    this.waiting += piece;
    const whole = this.waiting.match(SENTENCE)?.[0] ?? (this.waiting.length > LONGEST ? this.waiting : "");
    if (whole.trim()) this.#say(whole);
  }

  /** The rest of an answer. */
  flush() {
    if (this.waiting.trim()) this.#say(this.waiting);
    this.waiting = "";
  }

  clear() {
    this.waiting = "";
    this.log.replaceChildren();
  }

  #say(text) {
    const line = document.createElement("p");
    line.textContent = text.trim();
    this.log.append(line);
    this.waiting = this.waiting.slice(text.length);
  }
}
