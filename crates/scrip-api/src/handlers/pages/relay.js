// The script of both pages. The shop's page sends the URL of the bank. This page posts a form to that URL in
// an inner frame, and forwards the final message of the vault from that frame to the shop's page.
"use strict";
(function () {
  const settings = document.body.dataset;
  const BASE64URL = /^[A-Za-z0-9_-]{1,65536}={0,2}$/;
  let frame = null;

  // Other schemes can run scripts.
  function parseUrl(text) {
    if (typeof text !== "string" || text.length > 2048) return null;
    try {
      const url = new URL(text);
      return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
    } catch {
      return null;
    }
  }

  function start(message) {
    const action = parseUrl(message[settings.address]);
    const data = message[settings.field];
    if (action === null || typeof data !== "string" || !BASE64URL.test(data)) return;
    frame = document.createElement("iframe");
    frame.name = frame.id = settings.frame;
    frame.title = settings.title;
    document.body.append(frame);
    const form = document.createElement("form");
    form.method = "post";
    form.action = action;
    form.target = settings.frame;
    form.hidden = true;
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = settings.field;
    field.value = data;
    form.append(field);
    document.body.append(form);
    form.submit();
  }

  // Forwards only the expected attributes, so that a bank cannot send other messages.
  function relay({ id, isCompleted, authenticationStatus }) {
    if (typeof id !== "string" || typeof isCompleted !== "boolean") return;
    const reply = { type: settings.reply, id, isCompleted };
    if (typeof authenticationStatus === "string") reply.authenticationStatus = authenticationStatus;
    window.parent.postMessage(reply, "*");
  }

  window.addEventListener("message", function (event) {
    const message = event.data;
    if (typeof message !== "object" || message === null || window.parent === window) return;
    const isFromShop = event.source === window.parent;
    if (frame === null && isFromShop && message.type === settings.start) start(message);
    const isFromFrame = frame !== null && event.source === frame.contentWindow;
    if (isFromFrame && message.type === settings.reply) relay(message);
  });
})();
