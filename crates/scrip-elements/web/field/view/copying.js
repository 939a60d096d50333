// Copying to the clipboard, and the button that shows its success.

import { copyDrawing } from "./icons.js";

const FEEDBACK_MS = 2000;

/**
 * Writes to the clipboard. Pages without https have only the older way, which runs in the event of
 * the copy command, so that the value is never in the document.
 * @param {string} text
 * @returns {Promise<boolean>}
 */
async function writeClipboard(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    let written = false;
    const write = (/** @type {ClipboardEvent} */ event) => {
      event.preventDefault();
      event.stopImmediatePropagation();
      event.clipboardData?.setData("text/plain", text);
      written = true;
    };
    document.addEventListener("copy", write, { capture: true, once: true });
    const done = document.execCommand("copy");
    document.removeEventListener("copy", write, { capture: true });
    return done && written;
  }
}

/**
 * A button that copies.
 * @param {object} settings
 * @param {string} settings.className
 * @param {() => string} settings.readText the text to copy; empty copies nothing
 * @param {() => void} settings.clicked
 * @param {() => void} settings.copied
 */
export function createCopyButton({ className, readText, clicked, copied }) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = className;
  const status = document.createElement("span");
  status.className = "unseen";
  status.setAttribute("role", "status");
  let caption = "";
  let labels = { copy: "", copied: "" };
  let timer = 0;

  const render = (/** @type {boolean} */ isDone) => {
    button.classList.toggle("is-copied", isDone);
    button.replaceChildren(copyDrawing(isDone));
    if (caption !== "") {
      const text = document.createElement("span");
      text.textContent = isDone ? labels.copied : caption;
      button.append(text);
    }
    status.textContent = isDone ? labels.copied : "";
  };

  button.addEventListener("click", async () => {
    clicked();
    const text = readText();
    if (text === "" || !(await writeClipboard(text))) return;
    copied();
    render(true);
    window.clearTimeout(timer);
    timer = window.setTimeout(() => render(false), FEEDBACK_MS);
  });

  return {
    button,
    status,
    /**
     * @param {object} update
     * @param {string} update.caption visible text; empty for the icon only
     * @param {string} update.label name for screen readers
     * @param {{ copy: string, copied: string }} update.texts
     * @param {boolean} update.disabled
     */
    update(update) {
      ({ caption, texts: labels } = update);
      button.disabled = update.disabled;
      if (update.label !== "") button.setAttribute("aria-label", update.label);
      render(false);
    },
  };
}
