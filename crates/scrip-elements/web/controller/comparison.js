// Attributes of a token that the frame decides, and not the page.
//
// Deduplication is disabled for tokens that a page could compare with guesses of its own.
// A page could store a text after each key press, or a security code, store its own guesses as well,
// and compare the ids, because equal values would get one token. Numbers in cards need no such rule:
// a field gives no incomplete number, and the vault limits guesses of numbers.

import { fromEntries } from "./case.js";
import { validationFailure } from "./failure.js";
import { isObject, isTokenObject } from "./payload.js";

/** @typedef {import("./payload.js").Path} Path */

/** The container of cards. */
const CARD_CONTAINER = "/pci/high/";
const CARD_CONTAINERS = "/pci/";

/**
 * Returns the body with deduplication disabled for each token with a marked place. A leaf of a
 * tokenize body becomes a token object, because a leaf has no attributes.
 * @param {unknown} body
 * @param {Path[]} marked paths of values that stand in no attribute of their own
 * @returns {unknown}
 */
export function withoutComparison(body, marked) {
  return marked.reduce((result, path) => changeToken(result, path, disable), body);
}

/**
 * Returns the body with each number and code of a card in a container of cards. A session of the page
 * may be allowed to read texts in other containers.
 * @param {unknown} body
 * @param {Path[]} paths of these values
 * @returns {unknown}
 */
export function withCardContainer(body, paths) {
  return paths.reduce((/** @type {unknown} */ result, path) => changeToken(result, path, moveToCards), body);
}

/** @param {Record<string, unknown>} token */
function disable(token) {
  if (token.deduplicate_token === true) {
    throw validationFailure("deduplicateToken is not allowed with this element: a page could guess its value.", {
      deduplicateToken: { type: "invalid" },
    });
  }
  return { ...token, deduplicate_token: false };
}

/** @param {Record<string, unknown>} token */
function moveToCards(token) {
  const { type, containers } = token;
  // For these types the vault itself checks the container.
  if (type === "card" || type === "card_number" || type === "network_token") return token;
  const list = containers === undefined ? [CARD_CONTAINER] : containers;
  if (!Array.isArray(list) || !list.every((it) => typeof it === "string" && it.startsWith(CARD_CONTAINERS))) {
    throw validationFailure(`Numbers and codes of cards are stored below ${CARD_CONTAINERS} only.`, {
      containers: { type: "invalid" },
    });
  }
  return { ...token, containers: list };
}

/**
 * @param {unknown} node
 * @param {Path} path rest of the path
 * @param {(token: Record<string, unknown>) => Record<string, unknown>} change
 * @returns {unknown}
 */
function changeToken(node, path, change) {
  const [key, ...rest] = path;
  if (key === undefined) return change(isTokenObject(node) ? node : { type: "token", data: node });
  // The body of a token update has no type.
  if (isTokenObject(node) || (isObject(node) && key === "data" && !Object.hasOwn(node, "type"))) return change(node);
  if (Array.isArray(node)) return node.map((item, index) => (index === key ? changeToken(item, rest, change) : item));
  if (!isObject(node)) return node;
  return fromEntries(Object.entries(node).map(([name, item]) => [name, name === key ? changeToken(item, rest, change) : item]));
}
