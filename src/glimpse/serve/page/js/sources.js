/** Where tokens come from: the kinds that are marked apart, and which names of the server belong to each. */

export const KINDS = [
  { kind: "target", label: "the model itself", names: ["target"] },
  { kind: "sparse", label: "its own sparse draft", names: ["sparse", "refresh", "spine", "runner_up"] },
  {
    kind: "retrieval",
    label: "retrieved from the text",
    names: ["retrieval", "lookup", "suffix", "store", "racer", "automaton", "logits"],
  },
  { kind: "block", label: "block draft", names: ["block"] },
  { kind: "other", label: "another drafter", names: [] },
];

const KIND_OF = new Map(KINDS.flatMap(({ kind, names }) => names.map((name) => [name, kind])));

export function kindOf(name) {
  return KIND_OF.get(name) ?? "other";
}

/** One line on a token, for who points at it. */
export function described({ text, id, from, depth }) {
  const shown = JSON.stringify(text);
  const token = id === null ? shown : `${shown}, token ${id}`;
  if (from === "target") return `${token}: the model’s own`;
  return `${token}: drafted by ${from}${depth ? `, depth ${depth}` : ""}, kept by the model`;
}
