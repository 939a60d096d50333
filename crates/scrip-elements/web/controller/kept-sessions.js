// Sessions whose keys stay in this frame. The page gets the nonce, which its backend authorizes, and a
// handle. With the key itself, a page could read from the vault what the session may read.

import { apiFailure, validationFailure } from "./failure.js";
import { child } from "./payload.js";

const SESSIONS_MAX = 20;

export class KeptSessions {
  /** @type {Map<string, string>} */
  #keys = new Map();
  #randomId;

  /** @param {() => string} randomId */
  constructor(randomId) {
    this.#randomId = randomId;
  }

  /**
   * Keeps the key of a session that the vault created.
   * @param {unknown} session
   * @returns {{ nonce: unknown, session: string, expiresAt: unknown }} for the page
   */
  keep(session) {
    const key = child(session, "session_key");
    if (typeof key !== "string") throw apiFailure("The vault returned no session.", 0);
    const handle = `kept-${this.#randomId()}`;
    this.#keys.set(handle, key);
    const oldest = this.#keys.keys().next().value;
    if (this.#keys.size > SESSIONS_MAX && oldest !== undefined) this.#keys.delete(oldest);
    return { nonce: child(session, "nonce"), session: handle, expiresAt: child(session, "expires_at") };
  }

  /**
   * @param {string} handle
   * @returns {string} the session key
   */
  find(handle) {
    const key = this.#keys.get(handle);
    if (key !== undefined) return key;
    throw validationFailure("session must be the handle of a session that this frame keeps. Create the session again.", {
      session: { type: "invalid" },
    });
  }

  clear() {
    this.#keys.clear();
  }
}
