// Who learns about a change of a field: the page, and fields that show the same value.

export class Announcements {
  #channel;
  #lastChange = "";
  #followers = /** @type {Set<() => void>} */ (new Set());

  /** @param {Pick<import("../parent-channel.js").ParentChannel, "send">} channel */
  constructor(channel) {
    this.#channel = channel;
  }

  /** @param {() => void} follower called after each change */
  follow(follower) {
    this.#followers.add(follower);
  }

  /** @param {Record<string, unknown>} change what the page gets, if it is new */
  report(change) {
    const text = JSON.stringify(change);
    const isFirst = this.#lastChange === "";
    const isNew = text !== this.#lastChange;
    this.#lastChange = text;
    if (isNew && (!isFirst || change.empty !== true)) this.#channel.send("change", change);
    this.#followers.forEach((it) => this.#notify(it));
  }

  /** @param {() => void} follower */
  #notify(follower) {
    try {
      follower();
    } catch {
      // The frame of the follower is gone.
      this.#followers.delete(follower);
    }
  }
}
