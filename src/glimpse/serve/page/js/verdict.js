/** Plain and drafted decoding of the same request: which was faster, and whether the text is the same. */

const HOW =
  "Measured one run after the other, decoding only: reading the prompt, which the second may find done, is not counted.";

const PARTS = 4; // of plain decoding, each of
const ENOUGH = 8; // tokens at least
const UNEVEN = 1.25;

/** {headline, detail}, or null unless both came to their end. */
export function verdict(plain, drafted) {
  if (plain.state !== "finished" || drafted.state !== "finished") return null;
  const detail = [sameText(plain, drafted), HOW, unrest(plain)].join(" ").trim();
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

/**
 * What there is to say of a machine with other things to do: steps of plain decoding take longer as the text grows, so
 * a part that went faster than one before it was not slow by itself.
 */
export function unrest({ progress }) {
  const size = Math.floor((progress.length - 1) / PARTS);
  if (size < ENOUGH) return "";
  const rates = Array.from({ length: PARTS }, (_, part) => rateBetween(progress[part * size], progress[(part + 1) * size]));
  const gains = rates.map((rate, part) => rate / Math.min(...rates.slice(0, part + 1)));
  if (Math.max(...gains) < UNEVEN) return "";
  const [low, high] = [Math.min(...rates), Math.max(...rates)].map((rate) => rate.toFixed(1));
  return `Plain decoding itself went at ${low} to ${high} tokens a second: the machine has other things to do, and one pair of runs says little.`;
}

function rateBetween(one, other) {
  return (other.count - one.count) / (other.at - one.at);
}
