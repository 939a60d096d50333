// Keeps a page from comparing the value of an element with values of its own.
//
// A page could store a text after each key press, or a security code, store its own guesses as well,
// and compare the fingerprints, or the ids if equal values get one token. Numbers in card tokens need
// no such rule: a field gives no incomplete number, and the vault limits guesses of numbers.

import { fromEntries } from "./case.js";
import { validationFailure } from "./failure.js";
import { child, isObject, isTokenObject } from "./payload.js";

/** @typedef {import("./payload.js").Path} Path */

/**
 * Returns the body with deduplication disabled for each token that contains a text element. A text
 * that is a leaf of a tokenize body becomes a token object, because a leaf has no attributes.
 * @param {unknown} body
 * @param {Path[]} texts paths of text elements
 * @returns {unknown}
 */
export function withoutComparison(body, texts) {
  return texts.reduce((result, path) => disable(result, path), body);
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

/**
 * Returns the answer of tokenize with the id in place of each token object that was a leaf in the
 * request, and without fingerprints of other tokens with a text element.
 * @param {unknown} answer
 * @param {unknown} request
 * @param {Path[]} texts
 * @returns {unknown}
 */
export function idsOfTexts(answer, request, texts) {
  return texts.reduce((result, path) => replaceToken(result, request, path), answer);
}

/**
 * @param {unknown} answer
 * @param {unknown} request
 * @param {Path} path rest of the path
 * @returns {unknown}
 */
function replaceToken(answer, request, path) {
  const [key, ...rest] = path;
  if (key === undefined) return child(answer, "id") ?? answer;
  if (isTokenObject(request)) return withoutDetails(withoutFingerprint(answer));
  const next = (/** @type {unknown} */ item) => replaceToken(item, child(request, key), rest);
  if (Array.isArray(answer)) return answer.map((item, index) => (index === key ? next(item) : item));
  if (!isObject(answer)) return answer;
  return fromEntries(Object.entries(answer).map(([name, item]) => [name, name === key ? next(item) : item]));
}

/**
 * @param {unknown} token
 * @returns {unknown}
 */
export function withoutFingerprint(token) {
  return withoutAttributes(token, ["fingerprint"]);
}

/**
 * Removes the attributes that show digits of a text: a page could put a text where a number belongs.
 * @param {unknown} token
 * @returns {unknown}
 */
export function withoutDetails(token) {
  return withoutAttributes(token, ["card", "bank", "network_token"]);
}

/**
 * @param {unknown} token
 * @param {string[]} names
 * @returns {unknown}
 */
function withoutAttributes(token, names) {
  if (!isObject(token)) return token;
  return fromEntries(Object.entries(token).filter(([name]) => !names.includes(name)));
}

// The vault limits guesses of the numbers of these tokens.
const CARD_TYPES = ["card", "card_number", "network_token"];

/**
 * Whether a page could compare the value at this path with guesses.
 * @param {unknown} payload
 * @param {Path} path
 * @param {string} elementType
 * @returns {boolean}
 */
export function isComparable(payload, path, elementType) {
  if (elementType === "text") return true;
  let node = payload;
  for (const key of path) {
    if (isTokenObject(node)) return !CARD_TYPES.includes(String(node.type));
    node = child(node, key);
  }
  return true;
}
