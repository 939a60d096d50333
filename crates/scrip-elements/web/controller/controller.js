// The hidden frame of an instance. It holds the API key, reads the values of the fields at the time
// of a call, sends the request and keeps the answers. Values never leave the vault's origin.

import { runCall } from "./calls.js";
import { configurationFailure, describeFailure } from "./failure.js";
import { frameApplication, openParentChannel, randomId } from "../parent-channel.js";
import { KeptSessions } from "./kept-sessions.js";
import { isObject } from "./payload.js";
import { ReferenceStore } from "./references.js";
import { chooseKey, requestHeaders, send } from "./request.js";

/** @typedef {import("./filling.js").FieldReading} FieldReading */
/** @typedef {import("./value-kinds.js").ValueKind} ValueKind */
/** @typedef {import("./payload.js").Part} Part */

const BIN_LOOKUPS = 100;

/** @type {{ apiKey: string | undefined, debug: boolean }} */
const settings = { apiKey: undefined, debug: false };
const application = frameApplication();
const origins = readOrigins();
const references = new ReferenceStore(`data-${randomId()}`, randomId);
const sessions = new KeptSessions(randomId);
/** @type {Map<string, Promise<unknown>>} */
const binLookups = new Map();

const channel = openParentChannel((message) => {
  if (message.type === "init") {
    if (typeof message.apiKey === "string" && message.apiKey !== "") settings.apiKey = message.apiKey;
    settings.debug = isObject(message.options) && message.options.debug === true;
    channel.send("ready", { deviceInfo: readDeviceInfo() });
  } else if (message.type === "call") {
    void answerCall(message);
  }
});

/** @param {import("../parent-channel.js").PageMessage} message */
async function answerCall(message) {
  const id = message.id;
  try {
    checkOrigin();
    const value = await runCall(
      { ...settings, application, references, sessions, readField, showValidation, send: (request) => send(request) },
      message,
    );
    channel.send("answer", { id, value });
  } catch (error) {
    channel.send("failure", { id, error: describeFailure(error) });
  }
}

/**
 * The server already limits `frame-ancestors` to these origins. This check holds in browsers that
 * ignore the header.
 */
function checkOrigin() {
  const origin = channel.origin();
  if (origins.length === 0 || (origin !== undefined && origins.includes(origin))) return;
  throw configurationFailure(`The application does not allow the origin ${origin ?? "of this page"}.`, {
    type: "invalid-configuration",
  });
}

/** @returns {string[]} */
function readOrigins() {
  const content = document.querySelector('meta[name="scrip-origins"]')?.getAttribute("content") ?? "[]";
  const list = JSON.parse(content === "" ? "[]" : content);
  return Array.isArray(list) ? list.filter((origin) => typeof origin === "string") : [];
}

/**
 * Finds a field frame of this instance. Named access to frames works although the page has another
 * origin. Access to a frame of another origin throws. The frame must have the same application: a
 * page could otherwise replace the controller by one that stores values in another tenant.
 * @param {string} element
 * @returns {Record<string, unknown> | undefined}
 */
function findField(element) {
  try {
    const frames = /** @type {Record<string, any>} */ (/** @type {unknown} */ (window.parent));
    const field = frames[`scrip-field-${channel.nonce}-${element}`]?.scripField;
    const isOwn = field?.nonce === channel.nonce && field.element === element && field.application === application;
    return isOwn ? field : undefined;
  } catch {
    return undefined;
  }
}

/**
 * @param {string} element
 * @param {Part | undefined} part
 * @returns {Promise<FieldReading | undefined>}
 */
async function readField(element, part) {
  const field = findField(element);
  if (typeof field?.read !== "function") return undefined;
  const reading = await field.read(part);
  if (typeof reading !== "object" || reading === null) return undefined;
  /** @type {{ targetId: string, type: string }[]} */
  const errors = [];
  for (const error of Array.isArray(reading.errors) ? reading.errors : []) {
    errors.push({ targetId: String(error?.targetId), type: error?.type === "incomplete" ? "incomplete" : "invalid" });
  }
  const { valid, value, version, kind, isHidden } = reading;
  const knownKind = typeof kind === "string" ? /** @type {ValueKind} */ (kind) : undefined;
  const type = String(field.type);
  return { valid: valid === true, errors, value, type, version: String(version), kind: knownKind, isHidden: isHidden === true };
}

/** @param {string} element */
function showValidation(element) {
  const field = findField(element);
  if (typeof field?.showValidation === "function") field.showValidation();
}

/**
 * Card details of a BIN, for a field with `binLookup`.
 * @param {unknown} bin
 * @returns {Promise<unknown>} undefined if the vault does not know the BIN
 */
function lookUpBin(bin) {
  if (typeof bin !== "string" || !/^\d{6,8}$/.test(bin)) return Promise.resolve(undefined);
  let lookup = binLookups.get(bin);
  if (lookup === undefined) {
    lookup = fetchBin(bin);
    binLookups.set(bin, lookup);
    const oldest = binLookups.keys().next().value;
    if (binLookups.size > BIN_LOOKUPS && oldest !== undefined) binLookups.delete(oldest);
  }
  return lookup;
}

/** @param {string} bin */
async function fetchBin(bin) {
  try {
    checkOrigin();
    const path = `/enrichments/card-details?bin=${bin}`;
    const key = chooseKey(settings.apiKey, {}, application);
    const headers = await requestHeaders(key, {}, { application: undefined, sources: [], kinds: [] });
    const response = await send({ method: "GET", path, headers });
    if (response.status === 200) return response.data;
    // A BIN that the vault does not know stays unknown. Other failures are tried again later.
    if (response.status !== 404) binLookups.delete(bin);
  } catch {
    binLookups.delete(bin);
  }
  return undefined;
}

/** Ordinary facts about the browser. No canvas or WebGL fingerprint: these identify a person. */
function readDeviceInfo() {
  const { languages, platform, hardwareConcurrency, maxTouchPoints, webdriver, cookieEnabled } = navigator;
  const { userAgentData, deviceMemory, connection } = /** @type {any} */ (navigator);
  return {
    uaBrands: userAgentData?.brands?.map((/** @type {any} */ { brand, version }) => ({ brand, version })),
    uaMobile: userAgentData?.mobile,
    uaPlatform: userAgentData?.platform,
    languages: [...languages],
    timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
    cookiesEnabled: cookieEnabled,
    platform,
    hardwareConcurrency,
    deviceMemoryGb: deviceMemory ?? null,
    screenWidth: screen.width,
    screenHeight: screen.height,
    screenAvailWidth: screen.availWidth,
    screenAvailHeight: screen.availHeight,
    devicePixelRatio,
    maxTouchPoints,
    webdriver,
    network: connection && {
      downlink: connection.downlink,
      effectiveType: connection.effectiveType,
      rtt: connection.rtt,
      saveData: connection.saveData,
    },
  };
}

window.addEventListener("pagehide", () => {
  references.clear();
  sessions.clear();
  binLookups.clear();
});

Object.defineProperty(globalThis, "scripController", {
  value: Object.freeze({
    nonce: channel.nonce,
    application,
    resolve: (/** @type {unknown} */ reference) => references.resolve(reference),
    lookUpBin,
  }),
});
