// Random numbers that a failed test can repeat: the same seed gives the same sequence.

export function randomSource(seed) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    below: (limit) => Math.floor(next() * limit),
    pick: (list) => list[Math.floor(next() * list.length)],
  };
}

// What a browser does to a text: replaces the selection, or deletes one character.
export function browserEdit(text, start, end, kind, inserted = "") {
  if (kind === "insert") {
    return { text: text.slice(0, start) + inserted + text.slice(end), caret: start + inserted.length };
  }
  if (start !== end) return { text: text.slice(0, start) + text.slice(end), caret: start };
  if (kind === "backward") {
    const from = Math.max(0, start - 1);
    return { text: text.slice(0, from) + text.slice(start), caret: from };
  }
  return { text: text.slice(0, start) + text.slice(start + 1), caret: start };
}
