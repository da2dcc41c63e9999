// The part of the world that all maps show: moved and zoomed on any of them, by mouse, fingers or keys.

const MOST_ZOOM = 200;
const DRAGGED_PX = 4;
const KEY_STEP = 0.1; // of the width

export class Viewport {
  constructor(changed) {
    Object.assign(this, { changed, home: null, x: 0, y: 0, span: 1 });
  }

  // The world's box: left, bottom, right, top.
  setHome(box) {
    if (this.home && box.every((side, index) => side === this.home[index])) return;
    this.home = box;
    this.reset();
  }

  get aspect() {
    const [left, bottom, right, top] = this.home;
    return Math.min(2, Math.max(0.5, (right - left) / (top - bottom)));
  }

  get homeSpan() {
    const [left, bottom, right, top] = this.home;
    return Math.max(right - left, (top - bottom) * this.aspect);
  }

  get zoom() {
    return this.homeSpan / this.span;
  }

  get isZoomed() {
    return this.zoom > 1.01;
  }

  reset() {
    const [left, bottom, right, top] = this.home;
    this.set((left + right) / 2, (bottom + top) / 2, this.homeSpan);
  }

  // left, bottom, right, top of what is seen
  get box() {
    const height = this.span / this.aspect;
    return [this.x - this.span / 2, this.y - height / 2, this.x + this.span / 2, this.y + height / 2];
  }

  set(x, y, span) {
    const [left, bottom, right, top] = this.home;
    this.span = Math.min(this.homeSpan * 1.5, Math.max(this.homeSpan / MOST_ZOOM, span));
    this.x = Math.min(right, Math.max(left, x));
    this.y = Math.min(top, Math.max(bottom, y));
    this.changed();
  }

  // Zoom so that the point stays where it is on the screen.
  zoomAt([x, y], factor) {
    const span = Math.min(this.homeSpan * 1.5, Math.max(this.homeSpan / MOST_ZOOM, this.span / factor));
    const kept = span / this.span;
    this.set(x + (this.x - x) * kept, y + (this.y - y) * kept, span);
  }

  // The point of the world below a point of the canvas; both from their own corners.
  pointAt(canvas, clientX, clientY) {
    const frame = canvas.getBoundingClientRect();
    const [left, , , top] = this.box;
    const unit = this.span / frame.width;
    return [left + (clientX - frame.left) * unit, top - (clientY - frame.top) * unit];
  }

  // Let people move it on this canvas. hover(point), click(point): where no dragging was meant.
  listenTo(canvas, hover, click) {
    const pointers = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      pointers.set(event.pointerId, event);
      if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
      if (pointers.size === 1) moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) {
        hover(this.pointAt(canvas, event.clientX, event.clientY));
        return;
      }
      moved += Math.hypot(event.clientX - before.clientX, event.clientY - before.clientY);
      const drags = event.pointerType === "mouse" || this.isZoomed; // else one finger scrolls the page
      if (pointers.size === 1 && drags && moved > DRAGGED_PX) this.drag(canvas, before, event);
      if (pointers.size === 2) this.pinch(canvas, pointers, before, event);
      pointers.set(event.pointerId, event);
    });
    canvas.addEventListener("pointerup", (event) => {
      const wasOne = pointers.size === 1;
      pointers.delete(event.pointerId);
      const point = this.pointAt(canvas, event.clientX, event.clientY);
      if (wasOne && moved <= DRAGGED_PX) {
        hover(point);
        click(point);
      }
    });
    canvas.addEventListener("pointercancel", (event) => pointers.delete(event.pointerId));
    canvas.addEventListener("wheel", (event) => {
      const scrolls = document.documentElement.scrollHeight > innerHeight;
      if (scrolls && !event.ctrlKey && document.activeElement !== canvas) return; // the page goes first
      event.preventDefault();
      this.zoomAt(this.pointAt(canvas, event.clientX, event.clientY), Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0015)));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event, hover, click));
  }

  drag(canvas, before, event) {
    const unit = this.span / canvas.getBoundingClientRect().width;
    this.set(this.x - (event.clientX - before.clientX) * unit, this.y + (event.clientY - before.clientY) * unit, this.span);
  }

  pinch(canvas, pointers, before, event) {
    const other = [...pointers.values()].find((one) => one.pointerId !== event.pointerId);
    const apart = (one) => Math.hypot(one.clientX - other.clientX, one.clientY - other.clientY) || 1;
    const unit = this.span / canvas.getBoundingClientRect().width;
    const half = [(event.clientX - before.clientX) / 2, (event.clientY - before.clientY) / 2]; // as far the middle moves
    this.set(this.x - half[0] * unit, this.y + half[1] * unit, this.span);
    const middle = this.pointAt(canvas, (event.clientX + other.clientX) / 2, (event.clientY + other.clientY) / 2);
    this.zoomAt(middle, apart(event) / apart(before));
  }

  key(event, hover, click) {
    const step = this.span * KEY_STEP;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const zooms = { "+": 1.3, "=": 1.3, "-": 1 / 1.3 };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (moves[event.key]) {
      this.set(this.x + moves[event.key][0] * step, this.y + moves[event.key][1] * step, this.span);
      hover([this.x, this.y]);
    } else if (zooms[event.key]) {
      this.zoomAt([this.x, this.y], zooms[event.key]);
    } else if (event.key === "0") {
      this.reset();
    } else if (event.key === "Enter") {
      hover([this.x, this.y]);
      click([this.x, this.y]);
    } else {
      return;
    }
    event.preventDefault();
  }
}
