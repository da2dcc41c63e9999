// What people can do with all agents; what they may not do is not there.

import { act } from "./api.js";
import { element, isEnabled, setEnabled, toast } from "./dom.js";

const NAMES = { pause: "Pause", resume: "Resume", step: "Step" };
const HINTS = {
  pause: "Let no further round begin", resume: "Let rounds go on", step: "Run one round of paused agents",
};

// Buttons that do something with some agents: numbers() names them, null means all.
export function actionButtons(numbers, what = "") {
  const buttons = {};
  for (const name of Object.keys(NAMES)) {
    buttons[name] = element("button", { type: "button", "data-action": name, title: HINTS[name] }, `${NAMES[name]}${what}`);
    buttons[name].onclick = () => isEnabled(buttons[name]) && run(buttons[name], name, numbers());
  }
  return buttons;
}

// Pause while any of them runs, resume and step once all are paused.
export function setActions(buttons, agents) {
  const there = agents.filter((agent) => ["ok", "idle", "fault"].includes(agent.health));
  const paused = there.length > 0 && there.every((agent) => agent.paused);
  const some = there.some((agent) => agent.paused);
  for (const [name, wanted] of [["pause", there.length && !paused], ["resume", some], ["step", paused]]) {
    setEnabled(buttons[name], wanted && !buttons[name].dataset.busy);
  }
}

async function run(button, name, agents) {
  button.dataset.busy = "true";
  setEnabled(button, false);
  try {
    toast(await act(name, { agents }));
  } catch (fault) {
    toast(fault.message, true);
  } finally {
    delete button.dataset.busy; // what can be done now, the next state says
  }
}

export class ActionBar {
  constructor(place) {
    this.place = place;
    this.buttons = null;
  }

  update(state) {
    if (!state.may.control) {
      this.place.replaceChildren();
      this.buttons = null;
      return;
    }
    if (this.buttons === null) {
      this.buttons = actionButtons(() => null, " all");
      this.place.replaceChildren(...Object.values(this.buttons));
    }
    setActions(this.buttons, state.agents.filter((agent) => agent.watched));
  }
}
