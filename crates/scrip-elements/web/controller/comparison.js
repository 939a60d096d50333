// Disables deduplication of tokens that a page could compare with guesses of its own.
//
// A page could store a text after each key press, or a security code, store its own guesses as well,
// and compare the ids, because equal values would get one token. Numbers in cards need no such rule:
// a field gives no incomplete number, and the vault limits guesses of numbers.

import { fromEntries } from "./case.js";
import { validationFailure } from "./failure.js";
import { isObject, isTokenObject } from "./payload.js";

/** @typedef {import("./payload.js").Path} Path */

/**
 * Returns the body with deduplication disabled for each token with a marked place. A leaf of a
 * tokenize body becomes a token object, because a leaf has no attributes.
 * @param {unknown} body
 * @param {Path[]} marked paths of values that stand in no attribute of their own
 * @returns {unknown}
 */
export function withoutComparison(body, marked) {
  return marked.reduce((result, path) => disable(result, path), body);
}

/**
 * @param {unknown} node
 * @param {Path} path rest of the path
 * @returns {unknown}
 */
function disable(node, path) {
  const [key, ...rest] = path;
  if (key === undefined) return { type: "token", data: node, deduplicate_token: false };
  // The body of a token update has no type.
  if (isTokenObject(node) || (isObject(node) && key === "data" && !Object.hasOwn(node, "type"))) {
    if (node.deduplicate_token === true) {
      throw validationFailure("deduplicateToken is not allowed with this element: a page could guess its value.", {
        deduplicateToken: { type: "invalid" },
      });
    }
    return { ...node, deduplicate_token: false };
  }
  if (Array.isArray(node)) return node.map((item, index) => (index === key ? disable(item, rest) : item));
  if (!isObject(node)) return node;
  return fromEntries(Object.entries(node).map(([name, item]) => [name, name === key ? disable(item, rest) : item]));
}
