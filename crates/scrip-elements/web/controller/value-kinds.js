// What a value is, and where in a payload it belongs.
//
// The vault's answer shows first and last digits of a card number, and the date. So only a number in
// the attribute of a number, and a date in the attributes of a date, may be shown. Every other place
// is marked in the request: the vault then shows the page nothing that depends on the value.

import { child, findToken } from "./payload.js";

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
  return VALUE_KINDS.find((kind) => belongs(kind, child(token, "type"), path)) ?? "text";
}

/**
 * Whether a value of the kind belongs to the path of a token.
 * @param {ValueKind} kind
 * @param {unknown} type of the token
 * @param {Path} path
 */
function belongs(kind, type, [data, attribute, ...rest]) {
  if (data !== "data" || rest.length > 0) return false;
  if (attribute === undefined) return (kind === "card" && type === "card") || (kind === "number" && type === "card_number");
  const isCard = typeof type === "string" && CARD_TYPES.includes(type);
  return isCard && Object.hasOwn(CARD_ATTRIBUTES, attribute) && CARD_ATTRIBUTES[attribute] === kind;
}

/**
 * The place of a value: "own" is the attribute of a card that is made for the value, "foreign" is an
 * attribute of a card for another value, whose error of the vault would tell about it, and "free" is any other place.
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {Path} path
 * @param {ValueKind} kind
 * @returns {"own" | "foreign" | "free"}
 */
export function placeOf(rule, payload, path, kind) {
  const found = findToken(rule, payload, path);
  if (found === undefined) return "free";
  // The body of an update has no type, and the vault marks what stands in no card.
  const type = child(found.token, "type") ?? (rule === "update" ? "card" : undefined);
  const accepts = (/** @type {ValueKind} */ it) => belongs(it, type, path.slice(found.path.length));
  if (accepts(kind)) return "own";
  return VALUE_KINDS.some(accepts) ? "foreign" : "free";
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
