// One agent: how it is, how it finds its neighbors, and what can be done with it.

import { actionButtons, setActions } from "./actions.js";
import { fileLink } from "./api.js";
import { byId, element, setText } from "./dom.js";
import { ago, count } from "./words.js";

const EXPORTS = [["png", "Picture (.png)"], ["npz", "Numbers (.npz)"], ["nav2", "For Nav2 (.zip)"]];

export class AgentDialog {
  constructor() {
    this.dialog = byId("agent-dialog");
    this.number = null;
    this.dialog.addEventListener("close", () => { this.number = null; });
    this.dialog.addEventListener("click", (event) => event.target === this.dialog && this.dialog.close());
  }

  open(number) {
    if (!this.state) return;
    this.number = number;
    this.build();
    this.update(this.state);
    this.dialog.showModal();
  }

  // The parts that stay; what changes is in `body`, so that buttons keep the focus.
  build() {
    this.title = element("h2", { id: "agent-dialog-title" });
    this.body = element("div");
    this.foot = element("div");
    this.buttons = null;
    const close = element("button", { type: "button", class: "quiet", "aria-label": "Close" }, "✕");
    close.onclick = () => this.dialog.close();
    this.dialog.replaceChildren(element("div", { class: "dialog-head" }, this.title, close), this.body, this.foot);
    const agent = this.agent();
    if (agent?.watched) this.foot.append(...this.tools());
  }

  agent() {
    return this.state.agents.find((agent) => agent.number === this.number);
  }

  tools() {
    const rows = [];
    if (this.state.may.control) {
      this.buttons = actionButtons(() => [this.number]);
      rows.push(element("div", { class: "row" }, ...Object.values(this.buttons)));
    }
    if (this.state.view?.kind === "map") {
      const links = EXPORTS.filter(([format]) => format !== "nav2" || this.state.view.binary).map(([format, text]) =>
        fileLink(`/api/agents/${this.number}/map?format=${format}`, {}, text));
      rows.push(element("div", { class: "row" }, element("span", {}, "Export the map:"), ...links));
    }
    return rows;
  }

  update(state) {
    this.state = state;
    const agent = this.number === null ? null : this.agent();
    if (!agent) return;
    this.title.textContent = agent.name;
    const faults = [agent.reason, ...Object.values(agent.faults ?? {})].filter((fault) => fault);
    const parts = [...faults.map((fault) => element("p", { class: "fault" }, fault)), facts(agent)];
    if (agent.neighbors?.length) parts.push(neighbors(agent));
    replaceTexts(this.body, element("div", {}, ...parts));
    if (this.buttons) setActions(this.buttons, [agent]);
  }
}

// Where only words have changed, only these are written: what somebody has marked stays marked.
function replaceTexts(place, wanted) {
  const leaves = (node) => [...node.querySelectorAll("*")].filter((one) => one.childElementCount === 0);
  const [before, after] = [leaves(place), leaves(wanted)];
  const alike = before.length === after.length && before.every((one, index) => one.tagName === after[index].tagName);
  if (alike && before.length) before.forEach((one, index) => setText(one, after[index].textContent));
  else place.replaceChildren(...wanted.childNodes);
}

function facts(agent) {
  const rows = [["State", agent.state], ["Address", agent.url ?? "–"]];
  if (agent.round !== undefined) {
    rows.push(
      ["Round", `${count(agent.round)} of epoch ${count(agent.epoch)}, ${count(agent.rounds)} in all`],
      ["Observations", `${count(agent.observations)} learned, ${count(agent.backlog)} waiting`],
      ["Last round", ago(agent.round_s)], ["Last answer", ago(agent.seen_s)], ["Exchange", agent.exchange ?? "–"],
      ["Own weight", agent.own_weight.toFixed(3)]);
  }
  return element("dl", {}, ...rows.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function neighbors(agent) {
  const heads = ["Neighbor", "State", "Weight", "Heard"];
  const row = (one) => element("tr", {}, element("td", { class: "name" }, one.name),
    element("td", {}, element("span", {}, one.state), element("span", { class: "reason" }, one.reason ?? "")),
    element("td", { class: "number" }, one.weight.toFixed(3)), element("td", { class: "number" }, ago(one.age_s)));
  return element("div", { class: "scroll" }, element("table", {},
    element("thead", {}, element("tr", {}, ...heads.map((text, index) =>
      element("th", { scope: "col", class: index > 1 ? "number" : null }, text)))),
    element("tbody", {}, ...agent.neighbors.map(row))));
}
