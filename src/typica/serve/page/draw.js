// A board to draw on, for networks that look at small grey images: digits, letters, signs.

const DETAIL = 8; // parts of a pixel, each way, that its grey is the mean of
const PEN = 0.17; // of the smaller side: about as thick as digits of 8x8 and of 28x28 pixels are
const WIDEST = 0.75; // of the width: digits reach the top and bottom of their box, not its sides
const STEP = 0.04; // of the board, that an arrow key moves the pen by
const PAUSE = 900; // milliseconds without a stroke, after which a drawing is finished
const OFTEN = 150; // milliseconds between two looks at one that is not
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

export class Board {
  /** look(blob, finished): called with what the network is to see, while it is drawn and at the end. */
  constructor(canvas, look) {
    this.canvas = canvas;
    this.look = look;
    this.size = { width: 8, height: 8 };
    this.dark = false;
    this.fit = true;
    this.strokes = [];
    this.pen = { x: 0.5, y: 0.5, down: false, shown: false };
    this.pointer = null;
    this.busy = this.again = this.counted = false;
    canvas.addEventListener("pointerdown", event => this.begin(event));
    canvas.addEventListener("pointermove", event => this.move(event));
    for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, event => this.end(event));
    canvas.addEventListener("keydown", event => this.key(event));
    canvas.addEventListener("blur", () => { this.pen.shown = this.pen.down = false; this.paint(); });
  }

  /** Take images of this size, and begin anew. */
  reset(size) {
    this.size = size;
    this.canvas.height = Math.round(this.canvas.width * size.height / size.width);
    this.clear();
  }

  clear() {
    this.strokes = [];
    this.pen = { ...this.pen, x: 0.5, y: 0.5, down: false };
    this.changed();
  }

  undo() {
    this.strokes.pop();
    this.pen.down = false;
    this.changed();
  }

  get empty() { return this.strokes.length === 0; }

  begin(event) {
    if (this.pointer !== null || event.button > 0) return;
    event.preventDefault();
    this.canvas.focus({ preventScroll: true });
    this.pen.shown = this.pen.down = false;
    this.pointer = event.pointerId;
    this.canvas.setPointerCapture(event.pointerId);
    this.strokes.push([this.place(event)]);
    this.changed();
  }

  move(event) {
    if (event.pointerId !== this.pointer) return;
    const passed = event.getCoalescedEvents?.() ?? [];
    this.strokes.at(-1).push(...(passed.length ? passed : [event]).map(one => this.place(one)));
    this.changed();
  }

  end(event) {
    if (event.pointerId !== this.pointer) return;
    this.pointer = null;
    this.changed();
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { pen } = this;
    if (event.key in ARROWS) {
      const [dx, dy] = ARROWS[event.key], step = event.shiftKey ? STEP / 4 : STEP;
      pen.x = Math.min(Math.max(pen.x + dx * step, 0), 1);
      pen.y = Math.min(Math.max(pen.y + dy * step, 0), 1);
      if (pen.down) this.strokes.at(-1).push([pen.x, pen.y]);
    } else if (event.key === " ") {
      pen.down = !pen.down;
      if (pen.down) this.strokes.push([[pen.x, pen.y]]);
    } else if (event.key === "Backspace") {
      this.undo();
    } else if (event.key === "Escape") {
      this.clear();
    } else {
      return;
    }
    event.preventDefault();
    pen.shown = true;
    this.changed();
  }

  changed() {
    this.counted = false;
    this.paint();
    this.soon();
    clearTimeout(this.pause);
    const drawing = this.pointer !== null || this.pen.down;
    if (!this.empty && !drawing) this.pause = setTimeout(() => this.finish(), PAUSE);
  }

  // One look at a time; what changes meanwhile is looked at afterwards.
  async soon() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    this.again = false;
    const pace = new Promise(done => setTimeout(done, OFTEN));
    await this.show(false);
    await pace;
    this.busy = false;
    if (this.again) this.soon();
  }

  async finish() {
    if (this.busy) {
      this.pause = setTimeout(() => this.finish(), OFTEN);
      return;
    }
    this.counted = true;
    await this.show(true);
  }

  async show(finished) {
    const blob = this.empty ? null : await this.seen();
    await this.look(blob, finished);
  }

  /** Return what the network sees, as a PNG of its size. */
  seen() {
    const { width, height } = this.size;
    const large = new OffscreenCanvas(width * DETAIL, height * DETAIL);
    const context = large.getContext("2d", { willReadFrequently: true });
    const pen = PEN * Math.min(large.width, large.height);
    this.ink(context, large.width, large.height, pen, this.fit ? fitted(this.strokes, large, pen) : null);
    const fine = context.getImageData(0, 0, large.width, large.height).data;
    const small = new OffscreenCanvas(width, height);
    small.getContext("2d").putImageData(averaged(fine, width, height), 0, 0);
    return small.convertToBlob({ type: "image/png" });
  }

  /** Draw the strokes: as they lie on the board, or moved. */
  ink(context, width, height, pen, moved) {
    context.fillStyle = this.dark ? "#fff" : "#000";
    context.fillRect(0, 0, width, height);
    context.strokeStyle = this.dark ? "#000" : "#fff";
    context.lineWidth = pen;
    context.lineCap = context.lineJoin = "round";
    const place = moved ?? (([x, y]) => [x * width, y * height]);
    for (const stroke of this.strokes) {
      context.beginPath();
      stroke.map(place).forEach(([x, y], i) => i ? context.lineTo(x, y) : context.moveTo(x, y));
      if (stroke.length === 1) context.lineTo(...place(stroke[0]));
      context.stroke();
    }
  }

  paint() {
    const { canvas, pen } = this;
    const context = canvas.getContext("2d");
    this.ink(context, canvas.width, canvas.height, 0.075 * Math.min(canvas.width, canvas.height), null);
    if (this.empty && !pen.shown) {
      context.fillStyle = "#888";
      context.font = "40px system-ui, sans-serif";
      context.textAlign = "center";
      context.fillText("draw here", canvas.width / 2, canvas.height / 2);
    }
    if (!pen.shown) return;
    context.strokeStyle = pen.down ? "#f2a154" : "#6cb8f0";
    context.lineWidth = 4;
    context.beginPath();
    context.arc(pen.x * canvas.width, pen.y * canvas.height, 22, 0, 2 * Math.PI);
    context.stroke();
  }
}

// Move strokes so that they fill the frame from top to bottom, and are in its middle from left to right.
function fitted(strokes, { width, height }, pen) {
  const points = strokes.flat();
  const xs = points.map(point => point[0]), ys = points.map(point => point[1]);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const wide = Math.max(right - left, 0.02), high = Math.max(bottom - top, 0.02);
  let y = (height - pen) / high, x = Math.min(y * width / height, (WIDEST * width - pen) / wide);
  if (wide > 3 * high) x = y = (width - pen) / wide; // a dash stays one
  const middle = [(left + right) / 2, (top + bottom) / 2];
  return point => [width / 2 + (point[0] - middle[0]) * x, height / 2 + (point[1] - middle[1]) * y];
}

function averaged(fine, width, height) {
  const found = new ImageData(width, height);
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      let sum = 0;
      for (let i = 0; i < DETAIL; i++) {
        for (let j = 0; j < DETAIL; j++) {
          sum += fine[4 * ((row * DETAIL + i) * width * DETAIL + column * DETAIL + j)];
        }
      }
      const grey = Math.round(sum / DETAIL ** 2), place = 4 * (row * width + column);
      found.data.set([grey, grey, grey, 255], place);
    }
  }
  return found;
}
