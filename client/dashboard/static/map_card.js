// One agent's map: its picture, what is drawn over it, and what the agent says of one point.

import { element, setAttribute, setText } from "./dom.js";
import { agentColor, ago, count, figure, swatch } from "./words.js";

const MOST_PIXELS_PER_PX = 2;
const DOT = 3;

export class MapCard {
  constructor(number) {
    Object.assign(this, { number, whole: null, detail: null, recent: null, fault: null });
    this.name = element("span", { class: "name" });
    this.sub = element("span", { class: "sub" });
    this.canvas = element("canvas", { tabindex: 0, role: "img" });
    this.note = element("p", { class: "map-note", hidden: true });
    this.readout = element("div", { class: "readout" });
    this.element = element("article", { class: "card map", "data-agent": number },
      element("div", { class: "map-head" }, element("span", { class: "named" }, swatch(number), this.name), this.sub),
      element("div", { class: "map-frame" }, this.canvas, this.note), this.readout);
  }

  // What is known of its agent.
  update(agent, layer) {
    this.agent = agent;
    setText(this.name, agent.name);
    const old = !["ok", "idle", "fault"].includes(agent.health);
    setAttribute(this.element, "data-old", String(old && this.whole !== null));
    setAttribute(this.element, "data-health", agent.health);
    const round = this.whole ? `round ${count((this.detail ?? this.whole).round)}` : "";
    if (old && this.whole) this.sub.replaceChildren(element("span", { class: "badge" }, `old: ${agent.state}, ${ago(agent.seen_s)}`));
    else setText(this.sub, round);
    const told = this.fault ?? (this.whole ? null : old ? agent.reason ?? agent.state : "Waiting for the first map.");
    this.note.hidden = told === null;
    setText(this.note, told ?? "");
    setAttribute(this.canvas, "aria-label",
      `Map of ${agent.name}: ${layer}. Arrow keys move, plus and minus zoom, 0 shows all, Enter asks at the middle.`);
  }

  // A new picture, of all or of the part that is looked at; the old one is given back.
  setPicture(picture, isDetail) {
    const place = isDetail ? "detail" : "whole";
    this[place]?.bitmap.close();
    this[place] = picture;
    const shown = this.detail ?? this.whole;
    setAttribute(this.canvas, "data-round", shown?.round);
    setAttribute(this.canvas, "data-tag", shown?.tag);
  }

  forget() {
    for (const place of ["whole", "detail"]) {
      this[place]?.bitmap.close();
      this[place] = null;
    }
  }

  // One answer of /api/predictions; null: it did not say.
  say(told, binary) {
    if (told === undefined) {
      this.readout.replaceChildren();
      return;
    }
    if (told === null) {
      this.readout.replaceChildren("no answer");
      setAttribute(this.readout, "data-expected", null);
      return;
    }
    const kind = binary ? "P" : "mean";
    this.readout.replaceChildren(
      element("span", {}, `${kind} `, element("b", {}, figure(told.expected))),
      element("span", { title: "Standard deviation of the function behind the map" }, `sd ${figure(Math.sqrt(told.latent_variance))}`),
      element("span", { title: "Entropy, in nats" }, `H ${figure(told.entropy)}`));
    for (const name of ["expected", "latent_variance", "entropy", "round"]) {
      setAttribute(this.readout, `data-${name.replace("_", "-")}`, told[name]);
    }
  }

  fit(aspect) {
    this.canvas.style.aspectRatio = String(aspect);
  }

  draw(viewport, crosshair, showRecent) {
    const ratio = Math.min(MOST_PIXELS_PER_PX, devicePixelRatio || 1);
    const [width, height] = [Math.round(this.canvas.clientWidth * ratio), Math.round(this.canvas.clientHeight * ratio)];
    if (!width || !height) return;
    this.canvas.style.touchAction = viewport.isZoomed ? "none" : "pan-x pan-y";
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    const pen = this.canvas.getContext("2d");
    pen.clearRect(0, 0, width, height);
    const unit = width / viewport.span; // pixels
    const [left, , , top] = viewport.box;
    const at = ([x, y]) => [(x - left) * unit, (top - y) * unit];
    pen.imageSmoothingEnabled = false;
    for (const picture of [this.whole, this.detail]) {
      if (!picture) continue;
      const [x, y] = at([picture.box[0], picture.box[3]]);
      pen.drawImage(picture.bitmap, x, y, (picture.box[2] - picture.box[0]) * unit, (picture.box[3] - picture.box[1]) * unit);
    }
    if (showRecent && this.recent) this.drawRecent(pen, at, ratio);
    if (crosshair) drawCross(pen, at(crosshair), width, height, ratio);
  }

  drawRecent(pen, at, ratio) {
    const size = DOT * ratio;
    this.recent.x.forEach((point, index) => {
      const [x, y] = at(point);
      const hit = this.agent.binary && this.recent.y[index] >= 0.5;
      pen.fillStyle = hit ? "#fff" : "#000";
      pen.fillRect(x - size / 2 - ratio, y - size / 2 - ratio, size + 2 * ratio, size + 2 * ratio);
      pen.fillStyle = hit ? "#000" : "#fff";
      pen.fillRect(x - size / 2, y - size / 2, size, size);
    });
    if (!this.recent.position) return;
    const [x, y] = at(this.recent.position);
    pen.beginPath();
    pen.arc(x, y, 7 * ratio, 0, 2 * Math.PI);
    pen.fillStyle = agentColor(this.number);
    pen.fill();
    pen.lineWidth = 2.5 * ratio;
    pen.strokeStyle = "#fff";
    pen.stroke();
  }
}

function drawCross(pen, [x, y], width, height, ratio) {
  for (const [style, wide] of [["rgb(255 255 255 / 80%)", 3], ["rgb(20 30 40 / 85%)", 1]]) {
    pen.strokeStyle = style;
    pen.lineWidth = wide * ratio;
    pen.beginPath();
    pen.moveTo(x, 0);
    pen.lineTo(x, height);
    pen.moveTo(0, y);
    pen.lineTo(width, y);
    pen.stroke();
  }
}
