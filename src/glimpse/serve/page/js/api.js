/** The server's API. What goes wrong is an ApiError whose message is one clear line. */
import { events } from "./sse.js";

const LONGEST = 300;

export class ApiError extends Error {
  constructor(message, status = 0) {
    const line = message.replace(/\s+/g, " ").trim();
    super(line.length > LONGEST ? `${line.slice(0, LONGEST)}…` : line);
    this.status = status;
  }
}

export function modelList(key) {
  return ask("v1/models", { headers: headers(key) }).then(async (response) => {
    const { data } = await response.json();
    if (!data?.length) throw new ApiError("The server lists no model.");
    return data;
  });
}

/** The chunks of one completion, as they come. Ends without a word when `signal` aborts it. */
export async function* completion({ path, body }, { key, signal }) {
  const asked = { method: "POST", headers: headers(key), body: JSON.stringify(body), signal };
  let ended = false;
  try {
    for await (const data of events((await ask(path, asked)).body)) {
      if (data === "[DONE]") {
        ended = true;
        return;
      }
      yield checked(data);
    }
  } catch (error) {
    if (signal.aborted) return;
    throw error instanceof ApiError ? error : new ApiError("The connection broke off before the answer ended.");
  }
  if (!ended && !signal.aborted) throw new ApiError("The server ended the answer before it was complete.");
}

export function sampleText() {
  return ask("static/sample.txt", {}).then((response) => response.text());
}

function headers(key) {
  const plain = { "Content-Type": "application/json" };
  return key ? { ...plain, Authorization: `Bearer ${key}` } : plain;
}

async function ask(path, options) {
  const response = await fetch(path, options).catch((error) => {
    if (options.signal?.aborted) throw error;
    throw new ApiError(`The server at ${location.host} cannot be reached; is glimpse serve still running?`);
  });
  if (!response.ok) throw new ApiError(await refusal(response), response.status);
  return response;
}

async function refusal(response) {
  const wait = response.headers.get("Retry-After");
  if (response.status === 429) return `The server is full${wait ? `; try again in ${wait} s` : ""}.`;
  if (response.status === 401) return "This server asks for an API key: enter it under Options.";
  const { error, detail } = await response.json().catch(() => ({}));
  const said = error?.message ?? (typeof detail === "string" ? detail : "");
  return said || `The server answered ${response.status} ${response.statusText} without a reason.`;
}

function checked(data) {
  let chunk;
  try {
    chunk = JSON.parse(data);
  } catch {
    throw new ApiError("The server sent something that is not JSON.");
  }
  if (chunk.error) throw new ApiError(chunk.error.message ?? "The server reported an error without a reason.");
  return chunk;
}
