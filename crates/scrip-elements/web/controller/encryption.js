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

/**
 * @param {unknown} requests one token request, or several by name
 * @param {EncryptionKey} key
 * @returns {Promise<unknown>} in the shape of the requests
 */
export async function encryptRequests(requests, { keyId, publicKey }) {
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
