// Every agent's map side by side; or, where a model has no map, functions and parameters.

import { getJson, getPicture } from "./api.js";
import { byId, element, segments, setText } from "./dom.js";
import { Lines } from "./lines.js";
import { MapCard } from "./map_card.js";
import { ObserveDialog } from "./observe_dialog.js";
import { Viewport } from "./viewport.js";
import { figure, layerMeaning, layerName } from "./words.js";

const DETAIL_FROM = 1.25; // zoom
const SETTLED_MS = 250;
const ASK_EVERY_MS = 100;

export class Maps {
  constructor() {
    Object.assign(this, { cards: new Map(), layer: "expected", shown: false, crosshair: null,
      recent: true, posting: false, timer: null, generation: 0, asking: false, frame: null, toolsDrawn: "" });
    this.viewport = new Viewport(() => this.moved());
    this.lines = new Lines();
    this.observe = new ObserveDialog();
    new ResizeObserver(() => this.redraw()).observe(byId("maps-grid"));
  }

  enter() {
    this.shown = true;
    if (this.state) this.tick();
  }

  leave() {
    this.shown = false;
    clearTimeout(this.timer);
    this.timer = null;
    this.generation += 1;
    this.lines.leave();
  }

  recolor() {
    this.redraw();
    this.lines.recolor();
  }

  update(state) {
    const first = !this.state?.view && state.view;
    this.state = state;
    const agents = state.agents.filter((agent) => agent.watched);
    const kind = state.view?.kind ?? null;
    this.tellFault(agents.length);
    byId("maps-grid").hidden = kind !== "map";
    byId("lines").hidden = kind !== "function" && kind !== "parameters";
    this.tools(state);
    if (kind === "map") this.updateCards(state, agents);
    if (first && this.shown) this.tick();
  }

  tellFault(agents) {
    const none = agents ? "No agent has a model yet. As soon as one has, its belief is shown here." : "There are no agents to watch.";
    const said = this.state.view ? (this.state.view.kind === "map" ? null : this.lines.fault) : none;
    byId("maps-empty").hidden = said === null;
    setText(byId("maps-empty"), said ?? "");
  }

  updateCards(state, agents) {
    const { lower, upper, binary } = state.view;
    this.viewport.setHome([lower[0], lower[1], upper[0], upper[1]]);
    for (const agent of agents) {
      let card = this.cards.get(agent.number);
      if (!card) {
        card = new MapCard(agent.number);
        this.cards.set(agent.number, card);
        byId("maps-grid").append(card.element);
        this.viewport.listenTo(card.canvas, (point) => this.hover(point), (point) => this.click(agent.number, point));
      }
      card.fit(this.viewport.aspect);
      card.update(agent, layerName(this.layer, binary));
    }
  }

  tools(state) {
    const wanted = JSON.stringify([state.view?.kind, state.view?.layers, state.view?.binary, state.may]);
    if (wanted === this.toolsDrawn) return;
    this.toolsDrawn = wanted;
    const { kind, layers, binary } = state.view ?? { layers: [] };
    if (!layers.includes(this.layer)) this.layer = layers[0] ?? "expected";
    const parts = layers.length
      ? [segments("What to show", layers.map((layer) => [layer, layerName(layer, binary)]), this.layer, (layer) => this.choose(layer))] : [];
    if (kind === "map") parts.push(...this.mapTools(state));
    byId("maps-tools").replaceChildren(...parts);
    this.explain();
  }

  mapTools(state) {
    const button = (text, label, act) => element("button", { type: "button", "aria-label": label, title: label, onclick: act }, text);
    const zoom = element("div", { class: "group" },
      button("−", "Zoom out", () => this.viewport.zoomAt([this.viewport.x, this.viewport.y], 1 / 1.5)),
      button("+", "Zoom in", () => this.viewport.zoomAt([this.viewport.x, this.viewport.y], 1.5)),
      button("Show all", "Show all of the map", () => this.viewport.reset()));
    this.scale = { low: element("span"), high: element("span"), strip: element("img", { alt: "", width: 140, height: 12 }) };
    const parts = [zoom];
    if (state.may.recent) {
      const box = element("input", { type: "checkbox", checked: this.recent });
      box.onchange = () => { this.recent = box.checked; this.redraw(); };
      parts.push(element("label", {}, box, "Robots and their newest observations"));
    }
    if (state.may.ingest) {
      const post = element("button", { type: "button", id: "post", "aria-pressed": String(this.posting) }, "Post an observation");
      post.onclick = () => this.setPosting(!this.posting);
      parts.push(post);
    }
    parts.push(element("span", { class: "scale spring" }, this.scale.low, this.scale.strip, this.scale.high));
    return parts;
  }

  explain() {
    const { kind, binary } = this.state.view ?? {};
    const help = { map: `${layerName(this.layer, binary)}: ${layerMeaning(this.layer, binary)}. Drag to move, turn the wheel or use two fingers to zoom (where the page scrolls, click on a map first), on all maps at once; below each map stands what its agent says of the point under the pointer.`,
      function: "Every agent's function of the one coordinate; the band is two standard deviations wide on either side.",
      parameters: "This model has no map: it is not of one or two coordinates. Every agent's parameters, with bands of two standard deviations on either side." };
    setText(byId("maps-help"), this.posting ? "Click on a map where you observed something; you will be asked what, before anything is sent." : help[kind] ?? "");
    if (this.scale) this.scale.strip.src = `/api/palettes/${this.layer === "expected" && binary ? "diverging" : "sequential"}.png`;
  }

  choose(layer) {
    this.layer = layer;
    this.generation += 1;
    for (const card of this.cards.values()) card.forget();
    this.explain();
    this.redraw();
    this.tick();
  }

  setPosting(posting) {
    this.posting = posting;
    byId("maps").classList.toggle("posting", posting);
    byId("post").setAttribute("aria-pressed", String(posting));
    this.explain();
  }

  // ---- pictures

  // Ask for all that is shown, and again after a period, as long as somebody looks.
  async tick() {
    clearTimeout(this.timer);
    if (!this.shown || !this.state) return;
    const generation = ++this.generation;
    if (!document.hidden && this.state.view) {
      if (this.state.view.kind === "map") {
        const late = new Promise((done) => setTimeout(done, 1000 * this.state.period_s)); // nobody waits for one that hangs
        const fetched = [...this.cards.values()].map((card) => this.fetch(card));
        await Promise.race([late, Promise.all([...fetched, this.fetchRecent()])]);
        if (this.crosshair && !this.asking) this.ask();
      } else {
        await this.lines.fetch(this.state, this.layer, () => generation === this.generation);
        if (this.shown) this.tellFault(this.state.agents.length);
      }
    }
    if (generation === this.generation) this.timer = setTimeout(() => this.tick(), 1000 * this.state.period_s);
  }

  // One question at a time for each map; who is slow, is asked again when it has answered.
  async fetch(card) {
    const isDetail = this.isDetailed && card.whole !== null;
    const [layer, box] = [this.layer, isDetail ? this.viewport.box : null];
    const asked = `${layer} ${box}`;
    if (card.asked === asked) return;
    card.asked = asked;
    try {
      const picture = await getPicture(card.number, layer, box, (isDetail ? card.detail : card.whole)?.tag);
      if (layer !== this.layer || (isDetail && !this.isDetailed)) {
        picture?.bitmap.close();
        return;
      }
      card.fault = null;
      if (picture) card.setPicture(picture, isDetail);
      if (!isDetail && card.detail) card.setPicture(null, true);
    } catch (fault) {
      if (layer === this.layer) card.fault = fault.message;
    } finally {
      if (card.asked === asked) card.asked = null;
    }
    if (!this.shown || !this.state.view) return;
    if (picked(this.cards)) this.setScale(picked(this.cards).range);
    card.update(card.agent, layerName(this.layer, this.state.view.binary));
    this.redraw();
  }

  get isDetailed() {
    return this.viewport.zoom > DETAIL_FROM;
  }

  setScale([low, high]) {
    setText(this.scale.low, figure(low));
    setText(this.scale.high, figure(high));
  }

  async fetchRecent() {
    if (!this.state.may.recent || !this.recent) return;
    try {
      const told = await getJson("/api/recent");
      for (const card of this.cards.values()) card.recent = told[card.number];
    } catch { /* they are only an ornament: the maps tell the fault */ }
    this.redraw();
  }

  // ---- moving and looking

  moved() {
    this.redraw();
    clearTimeout(this.settling);
    this.settling = setTimeout(() => this.tick(), SETTLED_MS);
  }

  redraw() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (!this.viewport.home || !this.shown) return;
      for (const card of this.cards.values()) card.draw(this.viewport, this.crosshair, this.recent);
    });
  }

  hover(point) {
    this.crosshair = point;
    byId("maps-grid").dataset.at = point.join(","); // what the readouts are about, once they have its data-at
    this.redraw();
    if (!this.asking) this.ask();
  }

  async ask() {
    this.asking = true;
    let asked = null;
    while (this.shown && asked !== this.crosshair) {
      asked = this.crosshair;
      const pause = new Promise((done) => setTimeout(done, ASK_EVERY_MS));
      try {
        const told = await getJson(`/api/predictions?at=${asked.join(",")}`);
        for (const card of this.cards.values()) {
          card.say(told[card.number], card.agent.binary);
          card.readout.dataset.at = asked.join(",");
        }
      } catch {
        for (const card of this.cards.values()) card.say(null);
      }
      await pause;
    }
    this.asking = false;
  }

  click(number, point) {
    if (!this.posting) return;
    const agent = this.state.agents.find((one) => one.number === number);
    this.observe.open(agent, point, () => this.tick());
  }
}

const picked = (cards) => [...cards.values()].map((card) => card.detail ?? card.whole).find((one) => one);
