// Token requests as JWE for a client encryption key.

import { fromEntries } from "./case.js";
import { validationFailure } from "./failure.js";
import { encryptJwe, parsePublicKeyPem } from "./jwe.js";
import { isObject } from "./payload.js";

/**
 * @typedef {object} EncryptionKey
 * @property {string} keyId
 * @property {Uint8Array<ArrayBuffer>} publicKey
 * @property {(pem: unknown) => boolean} equals whether the PEM has the same key
 */

/**
 * @param {unknown} payload of `tokens.encrypt`
 * @returns {EncryptionKey}
 */
export function readKey(payload) {
  if (!isObject(payload)) throw validationFailure("The payload must be an object.");
  const { publicKeyPem, keyId } = payload;
  const publicKey = parsePublicKeyPem(publicKeyPem);
  if (typeof keyId !== "string" || keyId === "" || keyId.length > 200) {
    throw validationFailure("keyId must be the key_id of the public key.", { keyId: { type: "invalid" } });
  }
  const equals = (/** @type {unknown} */ pem) => parsePublicKeyPem(pem).every((byte, index) => byte === publicKey[index]);
  return { keyId, publicKey, equals };
}

/** A typed text of up to this many bytes has the size of every other one. */
const SIZE_STEP = 1024;

const encoder = new TextEncoder();

/**
 * Spaces that give values of any length one size. The page sees the size of a JWE.
 * @param {unknown[]} values
 */
function padding(values) {
  const missing = values.map((it) => {
    const size = encoder.encode(JSON.stringify(it) ?? "").length;
    return Math.ceil(size / SIZE_STEP) * SIZE_STEP - size;
  });
  return " ".repeat(missing.reduce((sum, it) => sum + it, 0));
}

/**
 * @param {unknown} requests one token request, or several by name
 * @param {EncryptionKey} key
 * @param {{ path: import("./payload.js").Path, value: unknown }[]} values of fields, by their paths in the payload
 * @returns {Promise<unknown>} in the shape of the requests
 */
export async function encryptRequests(requests, { keyId, publicKey }, values) {
  if (!isObject(requests)) throw validationFailure("tokenRequests must be an object.");
  const encryptOne = async (/** @type {unknown} */ request, /** @type {typeof values} */ own) => {
    if (!isObject(request) || typeof request.type !== "string" || request.data === undefined) {
      throw validationFailure("Each token request needs type and data.");
    }
    const text = JSON.stringify(request.data) + padding(own.map((it) => it.value));
    return { encrypted: await encryptJwe(text, publicKey, keyId), type: request.type };
  };
  if (typeof requests.type === "string") return encryptOne(requests, values);
  /** @type {[string, unknown][]} */
  const answers = [];
  for (const [name, request] of Object.entries(requests)) {
    const own = values.filter(({ path }) => path[1] === name);
    answers.push([name, await encryptOne(request, own)]);
  }
  return fromEntries(answers);
}
