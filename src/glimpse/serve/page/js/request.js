/** The body of a request, of what is asked and the settings. */

const ALWAYS = { stream: true, stream_options: { include_usage: true }, speculation: true };

/** A chat: `messages` so far, the new one included. */
export function chatRequest(messages, settings) {
  const system = settings.system ? [{ role: "system", content: settings.system }] : [];
  return { path: "v1/chat/completions", body: { ...common(settings), messages: [...system, ...messages] } };
}

/** A document with a question about it, or, without one, the document to be continued. */
export function documentRequest(document, question, settings) {
  if (question) return chatRequest([{ role: "user", content: `${document}\n\n${question}` }], settings);
  return { path: "v1/completions", body: { ...common(settings), prompt: document } };
}

/** The same without drafts. */
export function plainly({ path, body }) {
  const { pacer: _, ...kept } = body;
  return { path, body: { ...kept, drafter: "none" } };
}

/** What the model reads, for the recall map; the chat template's own words are left out. */
export function contextOf({ body }) {
  return body.prompt ?? body.messages.map(({ content }) => content).join("\n\n");
}

function common({ model, drafter, pacer, temperature, seed, maxTokens }) {
  const given = { model, drafter, pacer, temperature, seed, max_tokens: maxTokens };
  return { ...ALWAYS, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== null)) };
}
