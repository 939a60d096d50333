// Rules for payloads that contain fields, and the insertion of values.
//
// The page lists its fields as paths into the payload (`elements` of a call). These rules keep the
// page from reading a value: fields are accepted only where the vault stores or forwards values,
// and such a payload must not contain an expression of the page, because the vault would evaluate
// the expression over the value and return the result.

import { fromEntries } from "./case.js";
import { validationFailure } from "./failure.js";
import { isDateFormat } from "../field/format/expiration.js";

/** @typedef {(string | number)[]} Path */
/** @typedef {{ method: "month" | "year" | "format", format?: string }} Part */
/** @typedef {{ path: Path, element: string, part: Part | undefined }} FieldPlace */
/** @typedef {"create" | "update" | "tokenize" | "body" | "encrypt" | "none"} PlaceRule */

const MAX_DEPTH = 64;
const MAX_FIELDS = 200;
/** Far below the limits of the vault. At a limit, the vault's error would tell the length of a value. */
const MAX_PAGE_TEXT = 100_000;
const INTENT = "token_intent_id";
const METHODS = ["month", "year", "format"];
const EXPRESSION_ATTRIBUTES = ["mask", "search_indexes", "fingerprint_expression"];

/**
 * Checks the list of fields of a call.
 * @param {unknown} list
 * @returns {FieldPlace[]}
 */
export function parsePlaces(list) {
  if (list === undefined) return [];
  if (!Array.isArray(list) || list.length > MAX_FIELDS) throw invalidCall();
  const seen = new Set();
  return list.map((item) => {
    if (typeof item !== "object" || item === null) throw invalidCall();
    const { path, element, method, format } = /** @type {Record<string, unknown>} */ (item);
    if (!Array.isArray(path) || path.length === 0 || path.length > MAX_DEPTH) throw invalidCall();
    if (!path.every((key) => typeof key === "string" || Number.isSafeInteger(key))) throw invalidCall();
    if (typeof element !== "string" || !/^[A-Za-z0-9-]{1,64}$/.test(element)) throw invalidCall();
    if (method !== undefined && (typeof method !== "string" || !METHODS.includes(method))) throw invalidCall();
    if (format !== undefined && (typeof format !== "string" || format.length > 64)) throw invalidCall();
    if (format !== undefined && !isDateFormat(format)) {
      throw validationFailure("A format has the month and the year at most once each, and separators, such as MM/yyyy.", nest(path, { type: "invalid" }));
    }
    const name = JSON.stringify(path);
    if (seen.has(name)) throw invalidCall();
    seen.add(name);
    const part = method === undefined ? undefined : /** @type {Part} */ ({ method, format });
    return { path: /** @type {Path} */ (path), element, part };
  });
}

/**
 * Rejects a payload if a field is in a place where the rule does not allow it, or if a payload with
 * fields contains an expression.
 * @param {PlaceRule} rule
 * @param {unknown} payload in the spelling of the vault
 * @param {FieldPlace[]} places
 */
export function checkPayload(rule, payload, places) {
  checkDepth(payload, 0);
  if (places.length === 0) return;
  for (const place of places) {
    if (!isAllowedPlace(rule, payload, place.path)) {
      throw validationFailure(
        `An element is not allowed at ${place.path.join(".")}: ${ALLOWED[rule]}`,
        nest(place.path, { type: "invalid" }),
      );
    }
  }
  checkExpressions(rule, payload);
  if ((JSON.stringify(payload) ?? "").length > MAX_PAGE_TEXT) {
    throw validationFailure(`A payload with elements must not have more than ${MAX_PAGE_TEXT} characters.`);
  }
}

/**
 * Rejects expressions of the page, because the vault would evaluate them over the value. A proxied
 * body may have them: its destination gets the result, and the page does not.
 * @param {PlaceRule} rule
 * @param {unknown} payload
 */
export function checkExpressions(rule, payload) {
  if (rule === "body" || rule === "encrypt") return;
  for (const token of rule === "tokenize" ? tokenObjects(payload) : [payload]) {
    for (const attribute of EXPRESSION_ATTRIBUTES) {
      if (isObject(token) && Object.keys(token).some((key) => plainName(key) === plainName(attribute))) {
        throw validationFailure(
          `${attribute} is not allowed in a payload with elements: the expression could disclose a value. ` +
            "The expressions of the token type apply.",
          { [attribute]: { type: "invalid" } },
        );
      }
    }
  }
  if (containsExpression(payload)) {
    throw validationFailure(
      'Text with "{{" or "{%" is not allowed in a payload with elements: the expression could disclose a value.',
    );
  }
}

/** @type {Record<PlaceRule, string>} */
const ALLOWED = {
  create: "elements belong inside `data`.",
  update: "elements belong inside `data`.",
  tokenize: "elements are values, or belong inside `data` of an object with a `type`.",
  body: "elements belong inside `body`.",
  encrypt: "elements belong inside `data` of `tokenRequests`.",
  none: "this operation accepts no elements.",
};

/**
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {Path} path
 * @returns {boolean}
 */
function isAllowedPlace(rule, payload, path) {
  if (rule === "body") return path[0] === "body";
  const found = findToken(rule, payload, path);
  if (found !== undefined) return path[found.path.length] === "data";
  // With a value there, the object would be another token than the one that these rules see.
  return rule === "tokenize" && path.at(-1) !== INTENT;
}

/** @typedef {{ path: Path, token: unknown }} FoundToken */

/**
 * The token that contains a place of the page's payload, with its path; undefined at a leaf of tokenize and in a
 * proxied body. This is the only place that says which object is the token of a place. The payload is the
 * one of the page, without values of fields.
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {Path} path
 * @returns {FoundToken | undefined}
 */
export function findToken(rule, payload, path) {
  if (rule === "create" || rule === "update") return { path: [], token: payload };
  if (rule === "encrypt") {
    return listTokenRequests(payload).find((request) => request.path.every((key, index) => path[index] === key));
  }
  let node = payload;
  for (const [index, key] of rule === "tokenize" ? path.entries() : []) {
    if (isTokenObject(node)) return { path: path.slice(0, index), token: node };
    node = child(node, key);
  }
  return undefined;
}

/** @typedef {{ path: Path, token: Record<string, unknown> & { type: string } }} TokenRequest */

/**
 * The token requests of `tokens.encrypt`, each with its path in the payload: one request, or several by
 * name. This is the only place that distinguishes the two: a request named `data` is not the data of a
 * request. The payload is the one of the page, without values of fields: an answer repeats its types.
 * @param {unknown} payload
 * @returns {TokenRequest[]}
 */
export function listTokenRequests(payload) {
  const requests = child(payload, "tokenRequests");
  if (!isObject(requests)) throw validationFailure("tokenRequests must be an object.");
  if (isTokenRequest(requests)) return [{ path: ["tokenRequests"], token: requests }];
  return Object.entries(requests).map(([name, token]) => {
    if (!isTokenRequest(token)) throw validationFailure("Each token request needs type and data.");
    return { path: ["tokenRequests", name], token };
  });
}

/**
 * @param {unknown} value
 * @returns {value is TokenRequest["token"]}
 */
function isTokenRequest(value) {
  return isObject(value) && typeof value.type === "string" && value.data !== undefined;
}

/**
 * The vault stores such an object of a tokenize body as one token; every other leaf is a token. Exactly the
 * rule of the vault: with another one, the frame would treat the leaves of the vault as attributes.
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isTokenObject(value) {
  if (!isObject(value)) return false;
  const has = (/** @type {string} */ name) => Object.hasOwn(value, name);
  return (has("type") && (has("data") || has("encrypted"))) || (has(INTENT) && value[INTENT] !== null);
}

/**
 * @param {unknown} value
 * @returns {Record<string, unknown>[]}
 */
function tokenObjects(value) {
  if (isTokenObject(value)) return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(tokenObjects) : [];
}

/**
 * @param {unknown} value
 * @returns {boolean}
 */
export function containsExpression(value) {
  if (typeof value === "string") return value.includes("{{") || value.includes("{%");
  return typeof value === "object" && value !== null && Object.values(value).some(containsExpression);
}

/**
 * @param {unknown} value
 * @param {number} depth
 */
function checkDepth(value, depth) {
  if (typeof value !== "object" || value === null) return;
  if (depth >= MAX_DEPTH) throw validationFailure(`A payload must not be nested deeper than ${MAX_DEPTH} levels.`);
  for (const item of Object.values(value)) checkDepth(item, depth + 1);
}

/**
 * Returns a copy with another node at the path.
 * @param {unknown} node
 * @param {Path} path
 * @param {(node: unknown) => unknown} change
 * @returns {unknown}
 */
export function changeAt(node, [key, ...rest], change) {
  if (key === undefined) return change(node);
  if (Array.isArray(node)) {
    if (typeof key !== "number" || key < 0 || key >= node.length) throw invalidCall();
    return node.map((item, index) => (index === key ? changeAt(item, rest, change) : item));
  }
  if (!isObject(node) || typeof key !== "string" || !Object.hasOwn(node, key)) throw invalidCall();
  return fromEntries(
    Object.entries(node).map(([name, item]) => [name, name === key ? changeAt(item, rest, change) : item]),
  );
}

/**
 * Returns a copy of the payload with the values at their places.
 * @param {unknown} payload
 * @param {{ path: Path, value: unknown }[]} values
 * @returns {unknown}
 */
export function placeValues(payload, values) {
  return values.reduce((result, { path, value }) => changeAt(result, path, (node) => {
    // The page sends null in place of each field. Anything else is a forged call.
    if (node !== null) throw invalidCall();
    return value;
  }), payload);
}

/**
 * `nest(["data", "number"], x)` is `{ data: { number: x } }`.
 * @param {Path} path
 * @param {unknown} leaf
 * @returns {Record<string, unknown>}
 */
export function nest(path, leaf) {
  const nested = path.reduceRight((/** @type {unknown} */ inner, key) => fromEntries([[String(key), inner]]), leaf);
  return /** @type {Record<string, unknown>} */ (nested);
}

/**
 * Adds the properties of `addition` to `target`, object by object.
 * @param {Record<string, unknown>} target
 * @param {Record<string, unknown>} addition
 * @returns {Record<string, unknown>}
 */
export function mergeDetails(target, addition) {
  /** @type {[string, unknown][]} */
  const entries = Object.entries(target).filter(([key]) => !Object.hasOwn(addition, key));
  for (const [key, value] of Object.entries(addition)) {
    const existing = child(target, key);
    entries.push([key, isObject(existing) && isObject(value) ? mergeDetails(existing, value) : value]);
  }
  return fromEntries(entries);
}

/**
 * @param {unknown} node
 * @param {string | number} key
 * @returns {unknown}
 */
export function child(node, key) {
  if (typeof node !== "object" || node === null || !Object.hasOwn(node, key)) return undefined;
  return /** @type {Record<string | number, unknown>} */ (node)[key];
}

/**
 * @param {unknown} value
 * @returns {value is Record<string, unknown>}
 */
export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** @param {string} key */
function plainName(key) {
  return key.replace(/[^A-Za-z0-9]/g, "").toLowerCase();
}

function invalidCall() {
  return validationFailure("The call of the page script is malformed.");
}
