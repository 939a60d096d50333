// Attributes of a token that the frame decides, and not the page.
//
// Deduplication is disabled for tokens that a page could compare with guesses of its own.
// A page could store a text after each key press, or a security code, store its own guesses as well,
// and compare the ids, because equal values would get one token. Numbers in cards need no such rule:
// a field gives no incomplete number, and the vault limits guesses of numbers.

import { validationFailure } from "./failure.js";
import { changeAt, findToken, isTokenObject } from "./payload.js";

/** @typedef {import("./payload.js").Path} Path */
/** @typedef {{ rule: import("./payload.js").PlaceRule, payload: unknown }} PagePayload without values of fields */

/** The container of cards. */
const CARD_CONTAINER = "/pci/high/";
const CARD_CONTAINERS = "/pci/";

/**
 * Returns the body with deduplication disabled for each token with a marked place. A leaf of a
 * tokenize body becomes a token object, because a leaf has no attributes.
 * @param {PagePayload} page
 * @param {unknown} body
 * @param {Path[]} marked paths of values that stand in no attribute of their own
 */
export function withoutComparison(page, body, marked) {
  return changeTokens(page, body, marked, disable);
}

/**
 * Returns the body with each number and code of a card in a container of cards. A session of the page
 * may be allowed to read texts in other containers.
 * @param {PagePayload} page
 * @param {unknown} body
 * @param {Path[]} paths of these values
 */
export function withCardContainer(page, body, paths) {
  return changeTokens(page, body, paths, moveToCards);
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
 * @param {PagePayload} page
 * @param {unknown} body
 * @param {Path[]} paths of values
 * @param {(token: Record<string, unknown>) => Record<string, unknown>} change
 */
function changeTokens({ rule, payload }, body, paths, change) {
  return paths.reduce((/** @type {unknown} */ result, path) => {
    const token = findToken(rule, payload, path);
    if (token !== undefined) return changeAt(result, token.path, (it) => change(/** @type {Record<string, unknown>} */ (it)));
    return changeAt(result, path, (leaf) => change(isTokenObject(leaf) ? leaf : { type: "token", data: leaf }));
  }, body);
}
