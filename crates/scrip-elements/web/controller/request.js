// Requests to the vault's API, on the origin of the frame. One fetch per call, no repeats: only the
// caller knows whether a repeat is safe.

import { apiFailure, configurationFailure, validationFailure } from "./failure.js";
import { isObject } from "./payload.js";

/**
 * @typedef {object} ApiRequest
 * @property {string} method
 * @property {string} path below /api, encoded
 * @property {Record<string, string>} [headers]
 * @property {unknown} [body]
 * @property {number} [timeout] milliseconds
 */

/** @typedef {{ status: number, headers: Headers, data: unknown }} ApiResponse */

/**
 * @typedef {object} RequestOptions checked options of a call
 * @property {string} [apiKey]
 * @property {string} [correlationId]
 * @property {string} [idempotencyKey]
 * @property {string} [session] handle of a session that stays in this frame
 * @property {unknown} [deviceInfo]
 */

const TIMEOUT = 30_000;
const IDEMPOTENCY_SECRET = hex(crypto.getRandomValues(new Uint8Array(32)));
const HEADER_TEXT = /^[\x20-\x7e]{1,350}$/;

/**
 * @param {unknown} options as the page passed them
 * @returns {RequestOptions}
 */
export function parseRequestOptions(options) {
  if (options === undefined || options === null) return {};
  if (!isObject(options)) throw validationFailure("The request options must be an object.");
  /** @type {RequestOptions} */
  const parsed = {};
  for (const name of /** @type {const} */ (["apiKey", "correlationId", "idempotencyKey", "session"])) {
    const value = options[name];
    if (value === undefined || value === null || value === "") continue;
    if (typeof value !== "string" || !HEADER_TEXT.test(value)) {
      throw validationFailure(`${name} must be a text of up to 350 ASCII characters.`, { [name]: { type: "invalid" } });
    }
    parsed[name] = value;
  }
  if (isObject(options.deviceInfo)) parsed.deviceInfo = options.deviceInfo;
  return parsed;
}

/**
 * The API key of a call. The frame's URL names the public application that the server checked
 * against the page's origin (`frame-ancestors`), so no other public key may be used here.
 * @param {string | undefined} instanceKey
 * @param {RequestOptions} options
 * @param {string | undefined} application public key in the URL of the controller
 * @returns {string}
 */
export function chooseKey(instanceKey, options, application) {
  const key = options.apiKey ?? instanceKey;
  if (key === undefined) throw configurationFailure("An API key is required.", { type: "missing-configuration" });
  if (key.includes("_pub_") && key !== application) {
    throw configurationFailure(
      "This instance was created with another API key. Create an instance with the public key of the call.",
      { type: "invalid-configuration" },
    );
  }
  return key;
}

/**
 * @param {string} key
 * @param {RequestOptions} options
 * @param {{ application: string | undefined, sources: unknown[], kinds: readonly string[], content?: unknown }} values the
 *   frame's application if the request has values of fields, where these come from, what they are, and what the page itself sends
 * @returns {Promise<Record<string, string>>}
 */
export async function requestHeaders(key, options, { application, sources, kinds, content }) {
  /** @type {Record<string, string>} */
  const headers = { "BT-API-KEY": key };
  if (application !== undefined) {
    headers["Scrip-Field-Application"] = application;
    // The vault knows the type of a token that an update changes, and the frame does not.
    headers["Scrip-Field-Kinds"] = kinds.length === 0 ? "none" : [...new Set(kinds)].join(", ");
  }
  if (options.correlationId !== undefined) headers["BT-TRACE-ID"] = options.correlationId;
  if (options.idempotencyKey !== undefined) {
    const parts = application === undefined ? [sources] : [sources, content];
    headers["BT-IDEMPOTENCY-KEY"] = await idempotencyKey(options.idempotencyKey, parts);
  }
  if (options.deviceInfo !== undefined) headers["BT-DEVICE-INFO"] = encodeDeviceInfo(options.deviceInfo);
  return headers;
}

/**
 * The key of a request with values of fields says which request it is: the vault compares and counts nothing of a
 * repetition, because the page would learn from it. So the key names all of the request: the elements, with their
 * places and edits, and what the page itself sends. The secret makes it a key that nobody else can send. The vault
 * compares requests without values of fields itself.
 * @param {string} pageKey
 * @param {unknown[]} parts
 */
async function idempotencyKey(pageKey, parts) {
  const subtle = globalThis.crypto?.subtle;
  if (subtle === undefined) {
    throw configurationFailure("idempotencyKey needs a page on https or localhost: this browser has no WebCrypto here.");
  }
  const text = JSON.stringify([IDEMPOTENCY_SECRET, pageKey, ...parts]);
  return hex(new Uint8Array(await subtle.digest("SHA-256", new TextEncoder().encode(text))));
}

/** @param {Uint8Array} bytes */
function hex(bytes) {
  return Array.from(bytes, (it) => it.toString(16).padStart(2, "0")).join("");
}

/** @param {unknown} deviceInfo */
function encodeDeviceInfo(deviceInfo) {
  let binary = "";
  for (const byte of new TextEncoder().encode(JSON.stringify(deviceInfo))) binary += String.fromCharCode(byte);
  return btoa(binary);
}

/**
 * @param {ApiRequest} request
 * @param {typeof fetch} [fetcher] replaced in tests
 * @returns {Promise<ApiResponse>} the response, whatever its status
 */
export async function send(request, fetcher = fetch) {
  const timeout = request.timeout ?? TIMEOUT;
  const headers = new Headers(request.headers);
  if (request.body !== undefined && !headers.has("Content-Type")) headers.set("Content-Type", "application/json");
  try {
    const response = await fetcher(`/api${request.path}`, {
      method: request.method,
      headers,
      body: request.body === undefined ? null : JSON.stringify(request.body),
      signal: AbortSignal.timeout(timeout),
      // Keys are in headers. Cookies, caches, referrers and redirects have no use here.
      credentials: "omit",
      cache: "no-store",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
    return { status: response.status, headers: response.headers, data: parseBody(await response.text()) };
  } catch (error) {
    const timedOut = error instanceof DOMException && error.name === "TimeoutError";
    throw apiFailure(
      timedOut
        ? `The vault did not respond within ${timeout / 1000} seconds. The request may have taken effect: ` +
            "repeat it only with the same idempotencyKey."
        : "The vault could not be reached.",
      0,
    );
  }
}

/** @param {string} text */
function parseBody(text) {
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/**
 * @param {ApiResponse} response
 * @param {unknown} data body for the page
 * @param {boolean} debug
 */
export function responseFailure(response, data, debug) {
  const detail = isObject(data) && typeof data.detail === "string" ? `: ${data.detail}` : "";
  const message = `Request failed with status code ${response.status}${detail}`;
  return apiFailure(message, response.status, data, debug ? debugFields(response) : undefined);
}

/** @param {ApiResponse} response */
export function debugFields(response) {
  return { btTraceId: response.headers.get("bt-trace-id") ?? undefined };
}
