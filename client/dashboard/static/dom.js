// Elements made of text: whatever agents are called, it is never read as HTML.

export const byId = (id) => document.getElementById(id);

// element("button", {class: "quiet", onclick: act}, "text", child): attributes, handlers, children.
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function shape(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Only what differs is written: whoever reads or has the focus is not disturbed.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}

// A choice of one among few, as buttons side by side.
export function segments(label, choices, chosen, choose) {
  const group = element("div", { class: "segments", role: "group", "aria-label": label });
  const buttons = choices.map(([value, text]) =>
    element("button", { type: "button", "data-value": value, onclick: () => pick(value) }, text));
  const pick = (value) => {
    for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === String(value)));
    choose(value);
  };
  for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === String(chosen)));
  group.append(...buttons);
  return group;
}

// A button that stays where the focus is, though it does nothing for now.
export const setEnabled = (button, enabled) => setAttribute(button, "aria-disabled", enabled ? null : "true");
export const isEnabled = (button) => button.getAttribute("aria-disabled") !== "true";

// Over a dialog that is open, too: everything outside of it is out of reach.
export function toast(text, bad = false) {
  const note = element("div", { class: "toast", role: "status", "data-bad": String(bad) }, text);
  const dialog = document.querySelector("dialog[open]");
  const notes = dialog ? dialog.querySelector(".toasts") ?? dialog.appendChild(element("div", { class: "toasts" })) : byId("toasts");
  notes.append(note);
  dialog?.addEventListener("close", () => note.isConnected && byId("toasts").append(note), { once: true });
  setTimeout(() => note.remove(), bad ? 9000 : 5000);
}
