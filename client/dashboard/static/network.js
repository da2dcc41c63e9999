// The network: who learns from whom, and how every agent is.

import { byId, element, setAttribute, setText, shape } from "./dom.js";
import { ago, count, swatch } from "./words.js";

const [WIDTH, HEIGHT] = [560, 440];
const NODE = [124, 54]; // width and height, of few agents
const FEW = 6;
const COLUMNS = ["Round", "Observations", "Backlog", "Last round"];
const STATES = ["fresh", "stale", "unreachable", "refused", "unknown"];
const MEANINGS = { fresh: "fresh", stale: "stale", unreachable: "unreachable", refused: "refused", unknown: "not known" };

export class Network {
  constructor(open) {
    Object.assign(this, { open, rows: new Map(), drawn: "" });
    byId("graph-legend").append(
      ...STATES.map((state) => element("li", {}, sample(state), MEANINGS[state])),
      element("li", {}, "Arrows point the way parameters travel."));
  }

  update(state) {
    this.table(state.agents);
    this.graph(state);
    const none = state.agents.length === 0;
    byId("network-empty").hidden = !none;
    setText(byId("network-empty"), none ? "There are no agents to watch." : "");
  }

  table(agents) {
    const body = document.querySelector("#agents tbody");
    for (const agent of agents) {
      let row = this.rows.get(agent.number);
      if (!row) {
        row = element("tr", { "data-agent": agent.number },
          element("td", {}, element("span", { class: "named" }, swatch(agent.number),
            element("button", { type: "button", class: "link", onclick: () => this.open(agent.number) }))),
          element("td", {}, element("span", { class: "state" }), element("span", { class: "reason" })),
          ...COLUMNS.map((label) => element("td", { class: "number", "data-label": label })));
        this.rows.set(agent.number, row);
        body.append(row);
      }
      fillRow(row, agent);
    }
    for (const [number, row] of this.rows) {
      if (!agents.some((agent) => agent.number === number)) {
        row.remove();
        this.rows.delete(number);
      }
    }
  }

  // Drawn anew only where nodes or links are others; states and words are changed in place.
  graph(state) {
    const layout = JSON.stringify([state.agents.map((one) => one.spot), state.edges.map((one) => [one.from, one.to])]);
    if (layout !== this.drawn) {
      this.drawn = layout;
      this.draw(state);
    }
    const names = new Map(state.agents.map((agent) => [agent.number, agent.name]));
    state.edges.forEach((edge, index) => {
      const [line, head] = this.edges[index];
      for (const part of [line, head]) setAttribute(part, "data-state", edge.state);
      const heard = edge.age_s === null ? "never heard" : `heard ${ago(edge.age_s)}`;
      const words = `${names.get(edge.to)} takes from ${names.get(edge.from)}: ${MEANINGS[edge.state]}, ${heard}, weight ${edge.weight.toFixed(2)}`;
      setText(line.querySelector("title"), `${words}${edge.reason ? `; ${edge.reason}` : ""}`);
    });
    for (const agent of state.agents) {
      const node = this.nodes.get(agent.number);
      setAttribute(node, "data-health", agent.health);
      setAttribute(node, "aria-label", `${agent.name}: ${agent.state}`);
      setText(node.querySelector("title"), agent.name);
      setText(node.querySelector(".label"), short(agent.name));
      setText(node.querySelector(".sub"), short(agent.health === "ok" ? `round ${count(agent.rounds)}` : agent.state));
    }
  }

  draw(state) {
    const scale = Math.min(1, Math.sqrt(FEW / state.agents.length));
    const size = NODE.map((side) => side * scale);
    const [dx, dy] = [size[0] / 2 + 4, size[1] / 2 + 4];
    const place = new Map(state.agents.map(({ number, spot }) =>
      [number, [dx + spot[0] * (WIDTH - 2 * dx), dy + spot[1] * (HEIGHT - 2 * dy)]]));
    const ways = new Set(state.edges.map((edge) => `${edge.from} ${edge.to}`));
    this.edges = state.edges.map((edge) => link(place.get(edge.from), place.get(edge.to), size, ways.has(`${edge.to} ${edge.from}`)));
    this.nodes = new Map(state.agents.map((agent) => [agent.number, this.node(agent.number, place.get(agent.number), scale)]));
    byId("graph").replaceChildren(shape("svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "Graph of the network" },
      ...this.edges.flat(), ...this.nodes.values()));
  }

  node(number, [x, y], scale) {
    const open = () => this.open(number);
    const press = (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      open();
    };
    const [width, height] = NODE;
    return shape("g", { class: "node", role: "button", tabindex: 0, "data-agent": number, onclick: open, onkeydown: press,
      transform: `translate(${round(x)} ${round(y)}) scale(${scale.toFixed(3)})` },
      shape("title"), shape("rect", { class: "ring", x: -width / 2, y: -height / 2, width, height, rx: 12 }),
      shape("text", { class: "label", y: -4 }),
      shape("text", { class: "sub", y: 15 }));
  }
}

function fillRow(row, agent) {
  const [name, state, ...numbers] = row.children;
  setText(name.querySelector("button"), agent.name);
  setAttribute(row, "data-health", agent.health);
  setAttribute(state.firstChild, "data-health", agent.health);
  setText(state.firstChild, agent.state);
  setText(state.lastChild, agent.health === "unreachable" ? `last seen ${ago(agent.seen_s)}` : agent.reason ?? "");
  const told = [count(agent.rounds), count(agent.observations), count(agent.backlog), ago(agent.round_s)];
  numbers.forEach((cell, index) => setText(cell, agent.watched ? told[index] : "–"));
}

// A line from one node to the other, curved where another one goes the opposite way, and its arrow head.
function link(from, to, size, curved) {
  const [dx, dy] = [to[0] - from[0], to[1] - from[1]];
  const length = Math.hypot(dx, dy) || 1;
  const bend = curved ? Math.min(26, length / 6) : 0;
  const middle = [(from[0] + to[0]) / 2 - (dy / length) * bend, (from[1] + to[1]) / 2 + (dx / length) * bend];
  const begin = edgeOf(from, middle, size, 3);
  const tip = edgeOf(to, middle, size, 4);
  const end = edgeOf(to, middle, size, 13);
  const [hx, hy] = [tip[0] - end[0], tip[1] - end[1]];
  const corners = [tip, [end[0] - hy / 2, end[1] + hx / 2], [end[0] + hy / 2, end[1] - hx / 2]];
  const path = `M${begin.map(round)} Q${middle.map(round)} ${end.map(round)}`;
  return [
    shape("path", { class: "edge", d: path }, shape("title")),
    shape("polygon", { class: "head", points: corners.map((corner) => corner.map(round)).join(" ") }),
  ];
}

// Where the way from a node's middle to a point leaves the node, and a little further.
function edgeOf(node, towards, size, further) {
  const [dx, dy] = [towards[0] - node[0], towards[1] - node[1]];
  const length = Math.hypot(dx, dy) || 1;
  const inside = Math.min(size[0] / 2 / Math.abs(dx || 1e-9), size[1] / 2 / Math.abs(dy || 1e-9)) * length;
  return [node[0] + (dx / length) * (inside + further), node[1] + (dy / length) * (inside + further)];
}

const round = (number) => Math.round(number * 10) / 10;
const short = (text) => (text.length > 14 ? `${text.slice(0, 13)}…` : text);

function sample(state) {
  return shape("svg", { width: 34, height: 12, "aria-hidden": "true" },
    shape("line", { class: "edge", "data-state": state, x1: 0, y1: 6, x2: 34, y2: 6 }));
}
