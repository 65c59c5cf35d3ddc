/** Server-sent events: the `data` of each, from the body of a response. */

const BLANK_LINE = /\r?\n\r?\n/;

/** The data of one event (its `data:` lines joined), or null where it has none, as in a comment that keeps a line open. */
export function dataOf(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length ? lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n") : null;
}

export async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const blocks = (rest + value).split(BLANK_LINE);
      rest = blocks.pop();
      for (const data of blocks.map(dataOf)) if (data !== null) yield data;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
