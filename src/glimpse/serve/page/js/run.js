/** One generation: what was asked, what came when, and what the server said of it at the end. */

export class Run {
  /** `context`: the text that the model reads, for the recall map. `plain`: decoded without drafts. */
  constructor({ name, plain, context }) {
    Object.assign(this, { name, plain, context });
    this.state = "waiting"; // → streaming → finished | stopped | failed
    this.tokens = [];
    this.progress = []; // {at, count}: tokens so far, seconds after the first
    this.gammas = []; // {at, gamma}
    this.finishReason = null;
    this.usage = null;
    this.asked = performance.now();
    this.first = null;
  }

  /** Takes in a chunk; returns the tokens that it brought. */
  absorb(chunk, now = performance.now()) {
    const choice = chunk.choices?.[0];
    const tokens = arrived(chunk, choice?.text ?? choice?.delta?.content ?? "");
    this.finishReason = choice?.finish_reason ?? this.finishReason;
    this.usage = chunk.usage ?? this.usage;
    if (tokens.length) this.#clock(tokens.length, now, chunk.glimpse);
    this.tokens.push(...tokens);
    return tokens;
  }

  #clock(count, now, glimpse) {
    this.first ??= now;
    this.state = "streaming";
    const at = (now - this.first) / 1000;
    this.progress.push({ at, count: this.tokens.length + count });
    if (glimpse) this.gammas.push({ at, gamma: glimpse.gamma ?? 0 }); // null: a plain step
  }

  end(state) {
    this.state = state;
  }

  get running() {
    return this.state === "waiting" || this.state === "streaming";
  }

  get text() {
    return this.tokens.map(({ text }) => text).join("");
  }

  get speculation() {
    return this.usage?.speculation ?? null;
  }

  /** Tokens a second of decoding: the server's figure at the end, until then the page's. The first token is prefill's. */
  get rate() {
    const told = this.speculation?.tokens_per_second;
    if (told) return told;
    const [start, last] = [this.progress[0], this.progress.at(-1)];
    return last && last.at > 0 ? (last.count - start.count) / last.at : null;
  }

  /** Seconds until the first token, or null. */
  get firstAfter() {
    const told = this.speculation?.ttft_ms;
    if (told) return told / 1000;
    return this.first === null ? null : (this.first - this.asked) / 1000;
  }
}

function arrived(chunk, text) {
  const tokens = chunk.glimpse?.tokens ?? [];
  const told = tokens.map((token) => token.text).join("");
  // A server that marks no tokens, and what an ending let go of last: shown, but marked as nobody's.
  const rest = text.startsWith(told) ? text.slice(told.length) : "";
  return rest ? [...tokens, { text: rest, id: null, from: "target", depth: 0 }] : tokens;
}
