/** Numbers as they are read. */

export const rate = (value) => (value === null ? "–" : `${value < 10 ? value.toFixed(2) : value.toFixed(1)} tokens/s`);
export const seconds = (value) => (value === null ? "–" : value < 10 ? `${value.toFixed(2)} s` : `${value.toFixed(1)} s`);
export const percent = (share) => `${Math.round(100 * share)} %`;
export const counted = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
