// The operations of the controller: checks, one request, and an answer without values of fields.

import { camelCase, fromEntries, renameKeys, tokenAnswer, tokenRequest } from "./case.js";
import { idsOfTexts, isComparable, withoutComparison, withoutDetails, withoutFingerprint } from "./comparison.js";
import { configurationFailure, validationFailure } from "./failure.js";
import { encryptJwe, parsePublicKeyPem } from "./jwe.js";
import { checkPayload, child, isObject, isTokenObject, mergeDetails, nest, parsePlaces, placeValues } from "./payload.js";
import { chooseKey, debugFields, parseRequestOptions, requestHeaders, responseFailure } from "./request.js";

/** @typedef {import("./payload.js").FieldPlace} FieldPlace */
/** @typedef {import("./payload.js").Path} Path */
/** @typedef {import("./payload.js").PlaceRule} PlaceRule */
/** @typedef {import("./request.js").ApiResponse} ApiResponse */
/** @typedef {import("./request.js").RequestOptions} RequestOptions */

/**
 * @typedef {object} FieldReading
 * @property {boolean} valid
 * @property {{ targetId: string, type: string }[]} errors
 * @property {unknown} value
 * @property {string} type element type
 */

/**
 * @typedef {object} CallContext
 * @property {string | undefined} apiKey key of the instance
 * @property {string | undefined} application public key in the URL of the controller
 * @property {boolean} debug
 * @property {(element: string, part: FieldPlace["part"]) => FieldReading | undefined} readField undefined: not mounted
 * @property {(element: string) => void} showValidation
 * @property {import("./references.js").ReferenceStore} references
 * @property {(request: import("./request.js").ApiRequest) => Promise<ApiResponse>} send
 */

/**
 * @typedef {object} Call checked parts of a `call` message
 * @property {unknown} payload
 * @property {FieldPlace[]} places
 * @property {unknown} target
 * @property {RequestOptions} options
 */

/** @typedef {(context: CallContext, call: Call) => Promise<unknown>} Operation */

/** @type {Record<string, Operation>} */
const OPERATIONS = {
  "tokens.create": (context, call) => writeToken(context, call, "POST", "/tokens"),
  "tokens.update": (context, call) => writeToken(context, call, "PATCH", `/tokens/${pathSegment(call.target)}`),
  "tokens.retrieve": retrieveToken,
  "tokens.encrypt": encrypt,
  "tokenIntents.create": (context, call) => writeToken(context, call, "POST", "/token-intents"),
  tokenize,
  "sessions.create": createSession,
  "proxy.get": (context, call) => proxy(context, call, "GET"),
  "proxy.post": (context, call) => proxy(context, call, "POST"),
  "proxy.put": (context, call) => proxy(context, call, "PUT"),
  "proxy.patch": (context, call) => proxy(context, call, "PATCH"),
  "proxy.delete": (context, call) => proxy(context, call, "DELETE"),
};

/**
 * Runs a `call` message of the page.
 * @param {CallContext} context
 * @param {Record<string, unknown>} message
 * @returns {Promise<unknown>} the answer for the page
 */
export async function runCall(context, message) {
  const name = typeof message.operation === "string" ? message.operation : "";
  const operation = Object.hasOwn(OPERATIONS, name) ? OPERATIONS[name] : undefined;
  if (operation === undefined) throw configurationFailure("The hosted fields do not support this operation.");
  return operation(context, {
    payload: message.payload,
    places: parsePlaces(message.elements),
    target: message.target,
    options: parseRequestOptions(message.options),
  });
}

/**
 * @param {CallContext} context
 * @param {Call} call
 * @param {string} method
 * @param {string} path
 */
async function writeToken(context, call, method, path) {
  if (!isObject(call.payload)) throw validationFailure("The payload must be an object.");
  const body = tokenRequest(call.payload);
  const { filled, values, comparable, hasText } = fill(context, "data", body, call.places);
  const headers = authorize(context, call.options, call.places);
  if (method === "PATCH") headers["Content-Type"] = "application/merge-patch+json";
  const isToken = path !== "/token-intents";
  const sent = isToken ? withoutComparison(filled, comparable) : filled;
  const response = expectSuccess(context, await context.send({ method, path, headers, body: sent }));
  if (comparable.length > 0) response.data = withoutFingerprint(response.data);
  if (hasText) response.data = withoutDetails(response.data);
  return tokenWithReferences(context, response, values);
}

/** @type {Operation} */
async function retrieveToken(context, call) {
  rejectFields(call);
  const path = `/tokens/${pathSegment(call.target)}`;
  const headers = authorize(context, call.options);
  const response = expectSuccess(context, await context.send({ method: "GET", path, headers }));
  return tokenWithReferences(context, response, []);
}

/**
 * @param {CallContext} context
 * @param {ApiResponse} response
 * @param {unknown[]} values of the fields in the request
 */
function tokenWithReferences(context, response, values) {
  if (!isObject(response.data)) return withDebug(context, response, response.data);
  const replace = context.references.keep(response.data);
  const { data, ...others } = response.data;
  const clear = /** @type {Record<string, unknown>} */ (hideValues(others, values, replace, []));
  if (data !== undefined) clear.data = replace(data, ["data"]);
  return withDebug(context, response, tokenAnswer(clear));
}

/** @type {Operation} */
async function tokenize(context, call) {
  if (typeof call.payload !== "object" || call.payload === null) {
    throw validationFailure("The payload of tokenize must be an object or an array.");
  }
  const { filled, values, comparable } = fill(context, "tokenize", call.payload, call.places);
  const headers = authorize(context, call.options, call.places);
  const body = withoutComparison(filled, comparable);
  const response = expectSuccess(context, await context.send({ method: "POST", path: "/tokenize", headers, body }));
  // Without fields, the page itself supplied every value.
  if (call.places.length === 0) return withDebug(context, response, response.data);
  response.data = idsOfTexts(response.data, call.payload, comparable);
  const replace = context.references.keep(response.data);
  const answer = tokenizeAnswer(call.payload, response.data, replace, []);
  return withDebug(context, response, hideValues(answer, values, replace, []));
}

/**
 * Replaces `data` of each token by references. The answer has the shape of the request.
 * @param {unknown} request
 * @param {unknown} answer
 * @param {(part: unknown, path: Path) => unknown} replace
 * @param {Path} path
 * @returns {unknown}
 */
function tokenizeAnswer(request, answer, replace, path) {
  if (Array.isArray(answer)) {
    return answer.map((item, index) => tokenizeAnswer(child(request, index), item, replace, [...path, index]));
  }
  if (!isObject(answer)) return answer;
  const isToken = isTokenObject(request) || !isObject(request);
  return fromEntries(
    Object.entries(answer).map(([key, item]) => {
      const itemPath = [...path, key];
      if (!isToken) return [key, tokenizeAnswer(child(request, key), item, replace, itemPath)];
      return [key, key === "data" ? replace(item, itemPath) : item];
    }),
  );
}

/** @type {Operation} */
async function createSession(context, call) {
  rejectFields(call);
  const headers = authorize(context, call.options);
  const response = expectSuccess(context, await context.send({ method: "POST", path: "/sessions", headers }));
  return withDebug(context, response, renameKeys(response.data, camelCase));
}

// A proxied destination may be slow; the vault has its own, shorter limit.
const PROXY_TIMEOUT = 120_000;
const PAGE_HEADERS_IGNORED = ["bt-api-key", "bt-trace-id", "bt-idempotency-key", "bt-expose-raw-proxy-response"];
// Other headers of a destination could repeat a value of a field.
const RESPONSE_HEADERS = ["content-type", "bt-trace-id", "bt-proxy-destination-status", "retry-after"];

/**
 * @param {CallContext} context
 * @param {Call} call
 * @param {string} method
 */
async function proxy(context, call, method) {
  const options = call.payload ?? {};
  if (!isObject(options)) throw validationFailure("The options of a proxy request must be an object.");
  const { filled } = fill(context, "body", options, call.places);
  const body = method === "GET" || method === "DELETE" ? undefined : child(filled, "body");
  if (body === undefined && call.places.length > 0) throw validationFailure(`${method} requests have no body for elements.`);
  /** @type {Record<string, string>} */
  const headers = {};
  for (const [name, value] of Object.entries(isObject(options.headers) ? options.headers : {})) {
    if (value === undefined || value === null || PAGE_HEADERS_IGNORED.includes(name.toLowerCase())) continue;
    if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name) || /[^\t\x20-\x7e]/.test(String(value))) {
      throw validationFailure("A header of the proxy request has an invalid name or value.");
    }
    headers[name] = String(value);
  }
  Object.assign(headers, authorize(context, call.options, call.places));
  const path = proxyPath(options.path, options.query);
  const response = await context.send({ method, path, headers, body, timeout: PROXY_TIMEOUT });
  const replace = context.references.keep(response.data);
  const data = replace(response.data, []);
  if (!isSuccess(response)) {
    // An error of the vault itself is clear; an error body of the destination could repeat a value.
    const fromDestination = response.headers.has("bt-proxy-destination-status");
    throw responseFailure(response, fromDestination ? data : response.data, context.debug);
  }
  const answer = withDebug(context, response, data);
  if (options.includeResponseHeaders !== true) return answer;
  const shown = RESPONSE_HEADERS.filter((name) => response.headers.has(name));
  return { data: answer, headers: fromEntries(shown.map((name) => [name, response.headers.get(name)])) };
}

/**
 * The path must stay below /proxy. Otherwise a page could reach other operations without their rules.
 * @param {unknown} path
 * @param {unknown} query
 * @returns {string}
 */
export function proxyPath(path, query) {
  if (path !== undefined && path !== null && typeof path !== "string") throw validationFailure("path must be a text.");
  const suffix = path === undefined || path === null || path === "" || path.startsWith("/") ? (path ?? "") : `/${path}`;
  const url = new URL("http://vault/proxy");
  const target = new URL(`http://vault/proxy${suffix.replaceAll("#", "%23")}`);
  const escapes = target.host !== url.host || !(target.pathname === "/proxy" || target.pathname.startsWith("/proxy/"));
  if (escapes || /[\\]|(^|\/)(\.|%2e){1,2}(\/|\?|$)/i.test(suffix)) {
    throw validationFailure("path must not contain backslashes or the segments . and ..");
  }
  for (const [name, value] of Object.entries(isObject(query) ? query : {})) {
    if (value !== undefined && value !== null) target.searchParams.append(name, String(value));
  }
  return target.pathname + target.search;
}

/** @type {Operation} */
async function encrypt(context, call) {
  if (!isObject(call.payload)) throw validationFailure("The payload must be an object.");
  const { publicKeyPem, keyId } = call.payload;
  const publicKey = parsePublicKeyPem(publicKeyPem);
  if (typeof keyId !== "string" || keyId === "" || keyId.length > 200) {
    throw validationFailure("keyId must be the key_id of the public key.", { keyId: { type: "invalid" } });
  }
  if (call.places.length > 0) await confirmKey(context, call.options, keyId, publicKey);
  const { filled } = fill(context, "encrypt", call.payload, call.places);
  const requests = child(filled, "tokenRequests");
  if (!isObject(requests)) throw validationFailure("tokenRequests must be an object.");
  const encryptOne = async (/** @type {unknown} */ request) => {
    if (!isObject(request) || typeof request.type !== "string" || request.data === undefined) {
      throw validationFailure("Each token request needs type and data.");
    }
    return { encrypted: await encryptJwe(JSON.stringify(request.data), publicKey, keyId), type: request.type };
  };
  if (typeof requests.type === "string") return encryptOne(requests);
  /** @type {[string, unknown][]} */
  const answers = [];
  for (const [name, request] of Object.entries(requests)) answers.push([name, await encryptOne(request)]);
  return fromEntries(answers);
}

/**
 * Checks that the vault owns the key. A page could otherwise pass its own key and decrypt the value.
 * @param {CallContext} context
 * @param {RequestOptions} options
 * @param {string} keyId
 * @param {Uint8Array} publicKey
 */
async function confirmKey(context, options, keyId, publicKey) {
  const path = `/keys/${pathSegment(keyId)}/public-key`;
  const response = await context.send({ method: "GET", path, headers: authorize(context, { ...options, idempotencyKey: undefined }) });
  const known = isSuccess(response) ? parsePublicKeyPem(child(response.data, "public_key_pem")) : undefined;
  if (known === undefined || !known.every((byte, index) => byte === publicKey[index])) {
    throw configurationFailure(
      "The vault does not know this public key. Values of elements are encrypted only for keys of the vault.",
      { type: "invalid-configuration", keyId },
    );
  }
}

/**
 * Checks the payload and inserts the values of its fields.
 * @param {CallContext} context
 * @param {PlaceRule} rule
 * @param {unknown} payload
 * @param {FieldPlace[]} places
 */
function fill(context, rule, payload, places) {
  checkPayload(rule, payload, places);
  const readings = places.map((place) => ({ place, reading: context.readField(place.element, place.part) }));
  /** @type {Record<string, unknown>} */
  let details = {};
  /** @type {{ targetId: string, type: string }[]} */
  const validation = [];
  for (const { place, reading } of readings) {
    if (reading === undefined) {
      throw validationFailure(
        `The element at ${place.path.join(".")} is not mounted.`,
        nest(place.path, { type: "incomplete" }),
      );
    }
    if (reading.valid && reading.errors.length === 0) continue;
    const errors = reading.errors.length > 0 ? reading.errors : [{ targetId: place.element, type: "invalid" }];
    for (const error of errors) {
      // A card element has one error for each of its inputs.
      const path = reading.type === "card" ? [...place.path, error.targetId] : place.path;
      details = mergeDetails(details, nest(path, { type: error.type }));
      if (!validation.some((known) => known.targetId === error.targetId)) validation.push(error);
    }
  }
  if (validation.length > 0) {
    for (const { element } of places) context.showValidation(element);
    throw validationFailure("Unable to use the elements: their values are incomplete or invalid.", details, validation);
  }
  const values = readings.map(({ place, reading }) => ({ path: place.path, value: reading?.value, part: place.part }));
  return {
    filled: placeValues(payload, values),
    comparable: readings
      .filter(({ place, reading }) => isComparable(payload, place.path, reading?.type ?? ""))
      .map(({ place }) => place.path),
    hasText: readings.some(({ reading }) => reading?.type === "text"),
    // Month and year are card details, which every answer with the token shows.
    values: values.filter(({ part }) => part === undefined || part.method === "format").map(({ value }) => value),
  };
}

const SHORTEST_HIDDEN_VALUE = 5;

/**
 * Replaces texts that contain a value of a field by references. The vault returns such texts only
 * if the page put a field in an unusual place, for example an account number in `routing_number`.
 * @param {unknown} answer
 * @param {unknown[]} values
 * @param {(part: unknown, path: Path) => unknown} replace
 * @param {Path} path
 * @returns {unknown}
 */
function hideValues(answer, values, replace, path) {
  const texts = values
    .flatMap((value) => (isObject(value) ? Object.values(value) : [value]))
    .map(String)
    .filter((text) => text.length >= SHORTEST_HIDDEN_VALUE);
  /**
   * @param {unknown} node
   * @param {Path} nodePath
   * @returns {unknown}
   */
  const walk = (node, nodePath) => {
    if (Array.isArray(node)) return node.map((item, index) => walk(item, [...nodePath, index]));
    if (isObject(node)) return fromEntries(Object.entries(node).map(([key, item]) => [key, walk(item, [...nodePath, key])]));
    const text = typeof node === "string" || typeof node === "number" ? String(node) : "";
    return texts.some((value) => text.includes(value)) ? replace(node, nodePath) : node;
  };
  return walk(answer, path);
}

/**
 * @param {CallContext} context
 * @param {RequestOptions} options
 * @param {FieldPlace[]} [places]
 */
function authorize(context, options, places = []) {
  const key = chooseKey(context.apiKey, options, context.application);
  // A page with a private key of another tenant could store a value there and read it.
  if (places.length > 0 && /_(pvt|mgt)_/.test(key)) {
    throw configurationFailure("Elements work with public keys and session keys only. Keep other keys in your backend.");
  }
  return requestHeaders(key, options);
}

/** @param {Call} call */
function rejectFields(call) {
  checkPayload("none", undefined, call.places);
}

/** @param {ApiResponse} response */
function isSuccess(response) {
  return response.status >= 200 && response.status < 300;
}

/**
 * @param {CallContext} context
 * @param {ApiResponse} response
 */
function expectSuccess(context, response) {
  if (!isSuccess(response)) throw responseFailure(response, response.data, context.debug);
  return response;
}

/**
 * @param {CallContext} context
 * @param {ApiResponse} response
 * @param {unknown} answer
 */
function withDebug(context, response, answer) {
  return context.debug && isObject(answer) ? { ...answer, _debug: debugFields(response) } : answer;
}

/** @param {unknown} id */
function pathSegment(id) {
  if (typeof id !== "string" || id === "" || id === "." || id === "..") throw validationFailure("An id is required.");
  return encodeURIComponent(id);
}
