// A copy of a message of the page that has only plain values.
//
// A message can hold everything that structured cloning keeps: big integers, objects that contain themselves,
// maps. Code that reads such a value late throws at an unexpected place. So the message is copied once, before
// anything reads it. Patterns of the page stay what they are.

/** Options of a page are flat. A deeper value, such as one that contains itself, is none. */
const DEPTH_MAX = 16;

/**
 * Errors: the value is too deep, or has a part that JSON does not know.
 * @param {unknown} value
 * @param {number} [depth]
 * @returns {unknown}
 */
export function plainCopy(value, depth = 0) {
  if (typeof value === "bigint" || typeof value === "symbol" || typeof value === "function") {
    throw new TypeError(`A message has a ${typeof value}.`);
  }
  if (typeof value !== "object" || value === null || value instanceof RegExp) return value;
  if (depth === DEPTH_MAX) throw new RangeError("A message is too deep.");
  if (Array.isArray(value)) return value.map((it) => plainCopy(it, depth + 1));
  return Object.fromEntries(Object.entries(value).map(([name, it]) => [name, plainCopy(it, depth + 1)]));
}
