/** Plain and drafted decoding of the same request: which was faster, and whether the text is the same. */

const HOW =
  "Measured one run after the other, decoding only: reading the prompt, which the second may find done, is not counted.";

/** {headline, detail}, or null unless both came to their end. */
export function verdict(plain, drafted) {
  if (plain.state !== "finished" || drafted.state !== "finished") return null;
  const detail = `${sameText(plain, drafted)} ${HOW}`;
  if (!plain.rate || !drafted.rate) return { headline: "Too short to compare speeds.", detail };
  return { headline: compared(drafted.rate / plain.rate), detail };
}

function compared(ratio) {
  if (ratio >= 1.02) return `${ratio.toFixed(2)} times as fast as plain decoding.`;
  if (ratio > 0.98) return "As fast as plain decoding.";
  return `Slower here: ${ratio.toFixed(2)} times the speed of plain decoding.`;
}

function sameText(plain, drafted) {
  const [one, other] = [plain.tokens, drafted.tokens];
  const length = Math.max(one.length, other.length);
  for (let place = 0; place < length; place++) {
    if (one[place]?.text !== other[place]?.text) return `The texts part at token ${place + 1}.`;
  }
  return "The same text, token for token.";
}
