// Answers that stay in the controller. The page gets a reference for each value and hands it to a
// field (`setValue`), which reads the value from here. The number of answers is bounded.

import { fromEntries } from "./case.js";

/** @typedef {{ correlationId: string, elementId: string, path: string }} Reference */
/** @typedef {import("./value-kinds.js").ValueKind} ValueKind */
/** @typedef {(path: (string | number)[]) => ValueKind} KindFinder */

const ANSWERS = 100;

export class ReferenceStore {
  /** @type {Map<string, { answer: unknown, kindAt: KindFinder }>} */
  #answers = new Map();
  #elementId;
  #randomId;
  #limit;

  /**
   * @param {string} elementId goes into each reference; says which controller has the value
   * @param {() => string} randomId
   * @param {number} [limit] number of answers; the oldest is dropped first
   */
  constructor(elementId, randomId, limit = ANSWERS) {
    this.#elementId = elementId;
    this.#randomId = randomId;
    this.#limit = limit;
  }

  /**
   * Keeps one answer and returns a function that replaces a part of it by references.
   * @param {unknown} answer
   * @param {KindFinder} [kindAt] what the values are; texts, if nobody checked them
   * @returns {(part: unknown, path: (string | number)[]) => unknown}
   */
  keep(answer, kindAt = () => "text") {
    const correlationId = this.#randomId();
    this.#answers.set(correlationId, { answer, kindAt });
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= this.#limit) break;
      this.#answers.delete(oldest);
    }
    /**
     * @param {unknown} part
     * @param {(string | number)[]} path
     * @returns {unknown}
     */
    const replace = (part, path) => {
      // `null` and absent values stay: they tell only that there is no value.
      if (part === null || part === undefined) return part;
      if (Array.isArray(part)) return part.map((item, index) => replace(item, [...path, index]));
      if (typeof part === "object") {
        return fromEntries(Object.entries(part).map(([key, item]) => [key, replace(item, [...path, key])]));
      }
      return { correlationId, elementId: this.#elementId, path: pointer(path) };
    };
    return replace;
  }

  /**
   * @param {unknown} reference as the page passed it; unchecked
   * @returns {{ value: string | number | boolean, kind: ValueKind } | undefined}
   */
  resolve(reference) {
    if (typeof reference !== "object" || reference === null) return undefined;
    const { correlationId, elementId, path } = /** @type {Record<string, unknown>} */ (reference);
    if (elementId !== this.#elementId || typeof correlationId !== "string" || typeof path !== "string") {
      return undefined;
    }
    const kept = this.#answers.get(correlationId);
    const keys = parsePointer(path);
    let value = kept?.answer;
    for (const key of keys) {
      if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
      value = /** @type {Record<string, unknown>} */ (value)[key];
    }
    if (kept === undefined) return undefined;
    if (typeof value !== "string" && typeof value !== "number" && typeof value !== "boolean") return undefined;
    return { value, kind: kept.kindAt(keys) };
  }

  clear() {
    this.#answers.clear();
  }
}

/**
 * A JSON pointer (RFC 6901), because keys may contain dots.
 * @param {(string | number)[]} path
 */
function pointer(path) {
  return path.map((key) => `/${String(key).replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

/**
 * @param {string} text
 * @returns {string[]}
 */
function parsePointer(text) {
  return text === ""
    ? []
    : text.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}
