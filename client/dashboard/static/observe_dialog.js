// An observation, posted by hand: shown once more before it is sent, as it cannot be taken back.

import { act } from "./api.js";
import { byId, element, isEnabled, setEnabled, toast } from "./dom.js";
import { figure } from "./words.js";

export class ObserveDialog {
  constructor() {
    this.dialog = byId("observe-dialog");
  }

  open(agent, point, done) {
    const form = element("form", { method: "dialog" });
    const choice = agent.binary ? labels() : number();
    const post = element("button", { type: "submit", class: "primary" }, "Post it");
    const cancel = element("button", { type: "button", onclick: () => this.dialog.close() }, "Cancel");
    form.append(
      element("div", { class: "dialog-head" }, element("h2", { id: "observe-dialog-title" }, `Post to ${agent.name}?`)),
      element("p", {}, `At (${figure(point[0])}, ${figure(point[1])}). ${agent.name} learns from it as from any other observation; it cannot be taken back.`),
      choice.element, element("div", { class: "row" }, post, cancel));
    form.onsubmit = async (event) => {
      event.preventDefault();
      if (!isEnabled(post)) return;
      setEnabled(post, false);
      try {
        const said = await act("observe", { agent: agent.number, x: point, y: choice.value() });
        this.dialog.close();
        toast(said);
        done();
      } catch (fault) {
        toast(fault.message, true);
        setEnabled(post, true);
      }
    };
    this.dialog.replaceChildren(form);
    this.dialog.showModal();
  }
}

function labels() {
  const radio = (value, text, checked) =>
    element("label", {}, element("input", { type: "radio", name: "label", value, checked }), ` ${text}`);
  const fields = element("div", { class: "row", role: "radiogroup", "aria-label": "What is there" },
    radio(1, "occupied (1)", true), radio(0, "free (0)", false));
  return { element: fields, value: () => Number(fields.querySelector(":checked").value) };
}

function number() {
  const input = element("input", { type: "number", step: "any", required: true, value: 0 });
  return { element: element("label", { class: "row" }, "Value ", input), value: () => input.valueAsNumber };
}
