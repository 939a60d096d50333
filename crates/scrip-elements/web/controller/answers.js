// The answers for the page: a fixed list of attributes, and references in place of data.
//
// The list does not depend on values. If an answer hid or showed an attribute because of a value of a
// field, a page could put its guesses there.

import { fromEntries, tokenAnswer } from "./case.js";
import { child, isObject, isTokenObject } from "./payload.js";
import { storedKind } from "./value-kinds.js";

/** @typedef {import("./payload.js").Path} Path */
/** @typedef {import("./references.js").ReferenceStore} ReferenceStore */

/** Attributes of a token with a value in a place that is not made for it. */
const MARKED_ATTRIBUTES = ["id", "type", "containers", "expires_at"];
/** Attributes of a card. Free texts such as `metadata` are not among them. */
const CARD_ATTRIBUTES = [
  ...MARKED_ATTRIBUTES, "tenant_id", "fingerprint", "card", "bank", "network_token", "authentication",
  "created_by", "created_at", "modified_by", "modified_at", "_extras",
];
const CARD_TYPES = ["card", "card_number", "network_token"];

/**
 * The answer with a token that got values of fields.
 * @param {ReferenceStore} references
 * @param {unknown} token
 * @param {boolean} isMarked
 * @returns {unknown}
 */
export function filledTokenAnswer(references, token, isMarked) {
  if (!isObject(token)) return undefined;
  return tokenAnswer(shownToken(references, token, isMarked));
}

/**
 * @param {ReferenceStore} references
 * @param {Record<string, unknown>} token
 * @param {boolean} isMarked
 */
function shownToken(references, token, isMarked) {
  const isCard = typeof token.type === "string" && CARD_TYPES.includes(token.type);
  const names = isMarked || !isCard ? MARKED_ATTRIBUTES : CARD_ATTRIBUTES;
  /** @type {[string, unknown][]} */
  const entries = names.flatMap((name) => (Object.hasOwn(token, name) ? [[name, token[name]]] : []));
  if (Object.hasOwn(token, "data")) entries.push(["data", dataReferences(references, token)]);
  return fromEntries(entries);
}

/**
 * @param {ReferenceStore} references
 * @param {Record<string, unknown>} token
 */
function dataReferences(references, token) {
  return references.keep(token, (path) => storedKind(token, path))(token.data, ["data"]);
}

/**
 * The answer with a token of a request without fields: all attributes, with references in `data`.
 * @param {ReferenceStore} references
 * @param {unknown} token
 */
export function storedTokenAnswer(references, token) {
  if (!isObject(token)) return token;
  const data = Object.hasOwn(token, "data") ? dataReferences(references, token) : undefined;
  return tokenAnswer(data === undefined ? token : { ...token, data });
}

/**
 * The answer of tokenize, in the shape of the request: ids in place of leaves, and the attributes of
 * each token object.
 * @param {ReferenceStore} references
 * @param {unknown} request
 * @param {unknown} answer
 * @param {boolean} isMarked
 * @returns {unknown}
 */
export function tokenizeAnswer(references, request, answer, isMarked) {
  const next = (/** @type {string | number} */ key) =>
    tokenizeAnswer(references, child(request, key), child(answer, key), isMarked);
  if (isTokenObject(request)) return isObject(answer) ? shownToken(references, answer, isMarked) : undefined;
  if (Array.isArray(request)) return request.map((_, index) => next(index));
  if (isObject(request)) return fromEntries(Object.keys(request).map((key) => [key, next(key)]));
  // A leaf that became a token object has its id there.
  const id = isObject(answer) ? answer.id : answer;
  return typeof id === "string" ? id : undefined;
}
