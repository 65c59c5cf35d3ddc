/** Runs what is asked, one generation after the other, and keeps the page up to date with it. */
import { completion } from "./api.js";
import { plainly } from "./request.js";
import { Run } from "./run.js";

/** The runs that a request makes: with `compare`, plain decoding first, so that neither slows the other. */
export function runsOf(request, { drafter, compare, context }) {
  const name = drafter === "none" ? "Plain decoding" : drafter ? `Drafts: ${drafter}` : "With drafts";
  const asked = { request, run: new Run({ name, plain: drafter === "none", context }) };
  if (!compare) return [asked];
  return [{ request: plainly(request), run: new Run({ name: "Plain decoding", plain: true, context }) }, asked];
}

/** Plays one of them. `see(tokens)` is called at every change; throws what went wrong, with the run ended. */
export async function play({ request, run }, { key, signal, see }) {
  run.asked = performance.now();
  try {
    for await (const chunk of completion(request, { key, signal })) see(run.absorb(chunk));
    run.end(signal.aborted ? "stopped" : "finished");
  } catch (error) {
    run.end("failed");
    throw error;
  } finally {
    see([]);
  }
}
