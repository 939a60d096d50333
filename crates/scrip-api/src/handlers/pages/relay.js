// What both pages do. A shop's page says where the bank is; this one posts a form there, in a frame of its
// own; and what the vault says in that frame at the end is passed on to the shop's page.
"use strict";
(function () {
  const words = document.body.dataset;
  const BASE64URL = /^[A-Za-z0-9_-]{1,65536}={0,2}$/;
  let frame = null;

  // Any other scheme may be a script.
  function address(text) {
    if (typeof text !== "string" || text.length > 2048) return null;
    try {
      const url = new URL(text);
      return url.protocol === "http:" || url.protocol === "https:" ? url.href : null;
    } catch {
      return null;
    }
  }

  function start(message) {
    const action = address(message[words.address]);
    const data = message[words.field];
    if (action === null || typeof data !== "string" || !BASE64URL.test(data)) return;
    frame = document.createElement("iframe");
    frame.name = frame.id = words.frame;
    frame.title = words.title;
    document.body.append(frame);
    const form = document.createElement("form");
    form.method = "post";
    form.action = action;
    form.target = words.frame;
    form.hidden = true;
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = words.field;
    field.value = data;
    form.append(field);
    document.body.append(form);
    form.submit();
  }

  // Nothing but what is expected, so that a bank cannot speak for others.
  function relay({ id, isCompleted, authenticationStatus }) {
    if (typeof id !== "string" || typeof isCompleted !== "boolean") return;
    const told = { type: words.told, id, isCompleted };
    if (typeof authenticationStatus === "string") told.authenticationStatus = authenticationStatus;
    window.parent.postMessage(told, "*");
  }

  window.addEventListener("message", function (event) {
    const message = event.data;
    if (typeof message !== "object" || message === null || window.parent === window) return;
    const isFromShop = event.source === window.parent;
    if (frame === null && isFromShop && message.type === words.start) start(message);
    const isFromFrame = frame !== null && event.source === frame.contentWindow;
    if (isFromFrame && message.type === words.told) relay(message);
  });
})();
