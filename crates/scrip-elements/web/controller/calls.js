// The operations of the controller: checks, one request, and an answer without values of fields.

import { camelCase, renameKeys, fromEntries, tokenRequest } from "./case.js";
import { filledTokenAnswer, storedTokenAnswer, tokenizeAnswer } from "./answers.js";
import { withCardContainer, withoutComparison } from "./comparison.js";
import { encryptRequests, readKey } from "./encryption.js";
import { configurationFailure, validationFailure } from "./failure.js";
import { fillPayload } from "./filling.js";
import { checkExpressions, checkPayload, child, isObject, parsePlaces } from "./payload.js";
import { chooseKey, debugFields, parseRequestOptions, requestHeaders, responseFailure } from "./request.js";

/** @typedef {import("./payload.js").FieldPlace} FieldPlace */
/** @typedef {import("./request.js").ApiResponse} ApiResponse */
/** @typedef {import("./request.js").RequestOptions} RequestOptions */

/**
 * @typedef {object} CallFields
 * @property {string | undefined} apiKey key of the instance
 * @property {boolean} debug
 * @property {import("./references.js").ReferenceStore} references
 * @property {import("./kept-sessions.js").KeptSessions} sessions
 * @property {(request: import("./request.js").ApiRequest) => Promise<ApiResponse>} send
 */

/** @typedef {CallFields & import("./filling.js").FieldReader} CallContext */

/**
 * @typedef {object} Call checked parts of a `call` message
 * @property {unknown} payload
 * @property {FieldPlace[]} places
 * @property {unknown} target
 * @property {RequestOptions} options
 */

/** @typedef {(context: CallContext, call: Call) => Promise<unknown>} Operation */

const NO_VALUES = { sources: [], kinds: [] };

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
    payload: plainCopy(message.payload),
    places: parsePlaces(message.elements),
    target: message.target,
    options: parseRequestOptions(message.options),
  });
}

/**
 * A copy as JSON would make it. A message of the page can hold objects that look like texts only when
 * they are sent, and would pass the rules.
 * @param {unknown} payload
 * @returns {unknown}
 */
function plainCopy(payload) {
  try {
    return payload === undefined ? undefined : JSON.parse(JSON.stringify(payload));
  } catch {
    throw validationFailure("The payload must be plain data.");
  }
}

/**
 * Whether the request has a value that the page must not read: one of a field, or one that only a
 * session in this frame can read.
 * @param {Call} call
 */
function isGuarded(call) {
  return call.places.length > 0 || call.options.session !== undefined;
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
  /** @type {import("./comparison.js").PagePayload} */
  const page = { rule: method === "PATCH" ? "update" : "create", payload: body };
  if (isGuarded(call)) checkExpressions(page.rule, body);
  const { filled, marked, cardValues, ...values } = await fillPayload(context, page.rule, body, call.places);
  const headers = await authorize(context, call, { ...values, content: [method, path, body] });
  const isMarked = addMark(headers, marked);
  if (method === "PATCH") headers["Content-Type"] = "application/merge-patch+json";
  const isToken = path !== "/token-intents";
  const placed = method === "PATCH" ? filled : withCardContainer(page, filled, cardValues);
  const sent = isToken ? withoutComparison(page, placed, marked) : placed;
  const response = expectSuccess(context, await context.send({ method, path, headers, body: sent }));
  const { references } = context;
  const answer = isGuarded(call)
    ? filledTokenAnswer(references, response.data, isMarked)
    : storedTokenAnswer(references, response.data);
  return withDebug(context, response, answer);
}

/**
 * Tells the vault that a token or intent holds a value in a place that is not made for it.
 * @param {Record<string, string>} headers
 * @param {unknown[]} marked
 */
function addMark(headers, marked) {
  if (marked.length > 0) headers["Scrip-Field-Mark"] = "text";
  return marked.length > 0;
}

/** @type {Operation} */
async function retrieveToken(context, call) {
  rejectFields(call);
  const path = `/tokens/${pathSegment(call.target)}`;
  const headers = await authorize(context, call, NO_VALUES);
  const response = expectSuccess(context, await context.send({ method: "GET", path, headers }));
  return withDebug(context, response, storedTokenAnswer(context.references, response.data));
}

/** @type {Operation} */
async function tokenize(context, call) {
  if (typeof call.payload !== "object" || call.payload === null) {
    throw validationFailure("The payload of tokenize must be an object or an array.");
  }
  const page = { rule: /** @type {const} */ ("tokenize"), payload: call.payload };
  if (isGuarded(call)) checkExpressions(page.rule, page.payload);
  const { filled, marked, cardValues, ...values } = await fillPayload(context, page.rule, page.payload, call.places);
  const headers = await authorize(context, call, { ...values, content: ["POST", "/tokenize", page.payload] });
  const isMarked = addMark(headers, marked);
  const body = withCardContainer(page, withoutComparison(page, filled, marked), cardValues);
  const response = expectSuccess(context, await context.send({ method: "POST", path: "/tokenize", headers, body }));
  // Without fields, the page itself supplied every value.
  if (!isGuarded(call)) return withDebug(context, response, response.data);
  return withDebug(context, response, tokenizeAnswer(context.references, call.payload, response.data, isMarked));
}

/** @type {Operation} */
async function createSession(context, call) {
  rejectFields(call);
  const isKept = isObject(call.payload) && call.payload.keepInFrame === true;
  const headers = await authorize(context, call, NO_VALUES);
  if (isKept && headers["BT-API-KEY"] !== context.application) {
    throw configurationFailure("A session stays in the frame only with the public key of its instance.");
  }
  const response = expectSuccess(context, await context.send({ method: "POST", path: "/sessions", headers }));
  const answer = isKept ? context.sessions.keep(response.data) : renameKeys(response.data, camelCase);
  return withDebug(context, response, answer);
}

// A proxied destination may be slow; the vault has its own, shorter limit.
const PROXY_TIMEOUT = 120_000;
const PAGE_HEADERS_IGNORED = ["bt-api-key", "bt-trace-id", "bt-idempotency-key", "bt-expose-raw-proxy-response"];
const FRAME_HEADERS = /^scrip[-_]/i;
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
  const { filled, ...values } = await fillPayload(context, "body", options, call.places);
  const body = method === "GET" || method === "DELETE" ? undefined : child(filled, "body");
  if (body === undefined && call.places.length > 0) throw validationFailure(`${method} requests have no body for elements.`);
  const headers = pageHeaders(options.headers, isGuarded(call));
  const path = proxyPath(options.path, options.query);
  // A page that repeats a call may sign or date it again. Of its headers, only this one is content.
  const encrypted = Object.entries(headers).filter(([name]) => name.toLowerCase() === "bt-encrypted");
  const content = [method, path, child(options, "body"), encrypted];
  Object.assign(headers, await authorize(context, call, { ...values, content }));
  const response = await context.send({ method, path, headers, body, timeout: PROXY_TIMEOUT });
  const replace = context.references.keep(response.data);
  const data = replace(response.data, []);
  if (!isSuccess(response)) {
    // An error of the vault itself is clear; an error body of the destination could repeat a value.
    const fromDestination = response.headers.has("bt-proxy-destination-status");
    const shown = call.places.length > 0 ? withoutDetail(response) : response.data;
    throw responseFailure(response, fromDestination ? data : shown, context.debug);
  }
  const answer = withDebug(context, response, data);
  if (options.includeResponseHeaders !== true) return answer;
  const shown = RESPONSE_HEADERS.filter((name) => response.headers.has(name));
  return { data: answer, headers: fromEntries(shown.map((name) => [name, response.headers.get(name)])) };
}

/**
 * The error of a request with values of fields. Places and positions in it could depend on a value.
 * @param {ApiResponse} response
 */
function withoutDetail({ status, data }) {
  return status === 400 ? { title: child(data, "title"), status, detail: "The vault rejected the request." } : data;
}

/**
 * The headers of the page. Values of fields go only to destinations that an administrator configured,
 * never to one that the page names.
 * @param {unknown} given
 * @param {boolean} isGuardedCall
 */
function pageHeaders(given, isGuardedCall) {
  /** @type {Record<string, string>} */
  const headers = {};
  for (const [name, value] of Object.entries(isObject(given) ? given : {})) {
    const isIgnored = PAGE_HEADERS_IGNORED.includes(name.toLowerCase()) || FRAME_HEADERS.test(name);
    if (value === undefined || value === null || isIgnored) continue;
    if (!/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/.test(name) || /[^\t\x20-\x7e]/.test(String(value))) {
      throw validationFailure("A header of the proxy request has an invalid name or value.");
    }
    if (isGuardedCall && name.toLowerCase() === "bt-proxy-url") {
      throw validationFailure("BT-PROXY-URL is not allowed here: elements and kept sessions use pre-configured proxies.");
    }
    headers[name] = String(value);
  }
  if (isGuardedCall) rejectOtherFormats(headers);
  return headers;
}

/**
 * In JSON each value is a text of its own. In any other format the vault evaluates the body as one text,
 * and a page could write an expression around a value.
 * @param {Record<string, string>} headers
 */
function rejectOtherFormats(headers) {
  for (const [name, value] of Object.entries(headers)) {
    if (!["content-type", "content-encoding"].includes(name.toLowerCase())) continue;
    if (!/^application\/json *(; *charset=utf-8)?$/i.test(value) || name.toLowerCase() !== "content-type") {
      throw validationFailure("A body with elements, or of a kept session, is always application/json.");
    }
    delete headers[name];
  }
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
  const key = readKey(call.payload);
  if (call.places.length > 0) await confirmKey(context, key);
  const { filled, values } = await fillPayload(context, "encrypt", call.payload, call.places);
  return encryptRequests(call.payload, filled, key, values);
}

/**
 * Checks that the key belongs to the tenant of this frame's application, whatever key the page passes.
 * Otherwise the owner of the key could decrypt the value.
 * @param {CallContext} context
 * @param {import("./encryption.js").EncryptionKey} key
 */
async function confirmKey(context, key) {
  const { application } = context;
  const path = `/keys/${pathSegment(key.keyId)}/public-key`;
  const headers = application === undefined ? undefined : await requestHeaders(application, {}, { application, ...NO_VALUES });
  const response = headers && (await context.send({ method: "GET", path, headers }));
  const known = response && isSuccess(response) ? child(response.data, "public_key_pem") : undefined;
  if (known === undefined || !key.equals(known)) {
    throw configurationFailure(
      "The tenant of this instance does not have this public key. Values of elements are encrypted only for its keys.",
      { type: "invalid-configuration", keyId: key.keyId },
    );
  }
}

/**
 * The headers of a request. With values of fields, they name the application of this frame, and the
 * vault rejects every key that does not belong to it.
 * @param {CallContext} context
 * @param {Call} call
 * @param {Pick<import("./filling.js").FilledPayload, "sources" | "kinds"> & { content?: unknown }} values in the request,
 *   and what the page itself sends
 */
async function authorize(context, call, { sources, kinds, content }) {
  const { session } = call.options;
  const key = session === undefined ? chooseKey(context.apiKey, call.options, context.application) : context.sessions.find(session);
  const application = isGuarded(call) ? context.application : undefined;
  return requestHeaders(key, call.options, { application, sources, kinds, content });
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
