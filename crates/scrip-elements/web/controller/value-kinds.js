// What a value is, and where in a payload it belongs.
//
// The vault's answer shows first and last digits of a card number, and the date. So only a number in
// the attribute of a number, and a date in the attributes of a date, may be shown. Every other place
// is marked in the request: the vault then shows the page nothing that depends on the value.

import { child, findTokenRequest, isObject, isTokenObject } from "./payload.js";

/** @typedef {import("./payload.js").Path} Path */
/** @typedef {import("./payload.js").Part} Part */
/** @typedef {import("./payload.js").PlaceRule} PlaceRule */
/** @typedef {"card" | "number" | "month" | "year" | "code" | "text"} ValueKind */

/** @type {readonly ValueKind[]} */
const VALUE_KINDS = ["card", "number", "month", "year", "code"];
/** @type {Record<string, ValueKind>} attributes of a card, and of a network token */
const CARD_ATTRIBUTES = { number: "number", expiration_month: "month", expiration_year: "year", cvc: "code" };
const CARD_TYPES = ["card", "network_token"];

/** @type {Record<string, ValueKind>} */
const TYPED_KINDS = { card: "card", cardNumber: "number", cardVerificationCode: "code" };

/**
 * The kind of a value that was typed.
 * @param {string} type element type
 * @param {Part | undefined} part
 * @returns {ValueKind}
 */
export function typedKind(type, part) {
  if (type === "cardExpirationDate" && part !== undefined && part.method !== "format") return part.method;
  return (Object.hasOwn(TYPED_KINDS, type) ? TYPED_KINDS[type] : undefined) ?? "text";
}

/**
 * The kind of a value at a path of a stored token. The vault checks the data of cards only, so other
 * tokens have texts, whatever their attributes are called.
 * @param {unknown} token
 * @param {Path} path
 * @returns {ValueKind}
 */
export function storedKind(token, path) {
  const hasType = isObject(token) && typeof token.type === "string";
  return (hasType ? VALUE_KINDS.find((kind) => belongs(kind, token, path)) : undefined) ?? "text";
}

/**
 * Whether a value of the kind belongs to the path of a token. The body of an update has no type.
 * @param {ValueKind} kind
 * @param {unknown} token
 * @param {Path} path
 */
function belongs(kind, token, path) {
  const type = isObject(token) ? token.type : undefined;
  const [data, attribute] = path;
  if (data !== "data" || path.length > 2) return false;
  if (attribute === undefined) {
    return kind === "card" ? type === undefined || type === "card" : kind === "number" && type === "card_number";
  }
  const isCard = type === undefined || (typeof type === "string" && CARD_TYPES.includes(type));
  return isCard && Object.hasOwn(CARD_ATTRIBUTES, attribute) && CARD_ATTRIBUTES[attribute] === kind;
}

/**
 * Whether the path is an attribute of a card. The vault checks these, and its error tells about the value.
 * @param {unknown} token
 * @param {Path} path
 */
function isCardAttribute(token, path) {
  return VALUE_KINDS.some((kind) => belongs(kind, token, path));
}

/**
 * The place of a value: "own" is the attribute of a card that is made for the value, "foreign" is an
 * attribute of a card for another value, and "free" is any other place.
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {Path} path
 * @param {ValueKind} kind
 * @returns {"own" | "foreign" | "free"}
 */
export function placeOf(rule, payload, path, kind) {
  const found = findToken(rule, payload, path);
  if (found === undefined) return "free";
  if (belongs(kind, found.token, found.path)) return "own";
  return isCardAttribute(found.token, found.path) ? "foreign" : "free";
}

/**
 * Whether the vault accepts any value at the path: the token has no rules for its data. The type of an
 * encrypted token is not fixed, because its page can post it with another one.
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {Path} path
 */
export function isUnchecked(rule, payload, path) {
  const found = findToken(rule, payload, path);
  if (found === undefined) return rule === "tokenize";
  return rule !== "encrypt" && child(found.token, "type") === "token";
}

/**
 * The token of a place, and the path inside of it; undefined in a proxied body and at a leaf of tokenize.
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {Path} path
 */
function findToken(rule, payload, path) {
  if (rule === "data") return { token: payload, path };
  if (rule === "body") return undefined;
  if (rule === "encrypt") {
    const request = findTokenRequest(payload, path);
    return request && { token: request.token, path: path.slice(request.path.length) };
  }
  let node = payload;
  for (const [index, key] of path.entries()) {
    if (isTokenObject(node)) return { token: node, path: path.slice(index) };
    node = child(node, key);
  }
  return undefined;
}
