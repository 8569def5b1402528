"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const state = { method: 0, set: 0, threshold: 0 };

  /** Make an element; text and attributes are set as such, so no name can turn into markup. */
  function make(tag, attributes = {}, ...children) {
    const svg = ["svg", "path", "line", "text", "rect", "circle", "g", "defs", "pattern"].includes(tag);
    const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  }

  /** A share in percent with two decimals, halves to even as in the tables: toFixed alone makes .13 of .125. */
  function percent(share) {
    const value = 100 * share;
    return Number.isNaN(value) ? "–" : `${(value - ((8 * value) % 4 === 1 ? 0.005 : 0)).toFixed(2)}\u00a0%`;
  }

  const whole = (n) => n.toLocaleString("en-US");
  const minus = (text) => String(text).replace(/-/g, "−");

  /** The shortest decimal that reads back as the same number in the precision of the scores. */
  function shortest(value, single) {
    if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
    if (!single) return String(value);
    for (let digits = 1; digits < 9; digits++) {
      const text = Number(value.toPrecision(digits));
      if (Math.fround(text) === value) return String(text);
    }
    return String(Number(value.toPrecision(9)));
  }

  /** Whole steps of 1, 2 or 5 times a power of ten, about `count` of them between low and high. */
  function ticks(low, high, count) {
    const rough = (high - low) / Math.max(1, count);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough * 0.999);
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) {
      const value = k * step;
      const plain = Math.abs(value) >= 1e5 || (value !== 0 && decimals > 6);
      found.push({ value, label: minus(plain ? value.toExponential(1) : value.toFixed(decimals)) });
    }
    return found;
  }

  function unpack(text, single) {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return single ? new Float32Array(bytes.buffer) : new Float64Array(bytes.buffer);
  }

  /** The scores of a method, unpacked when first asked for. */
  function scoresOf(method) {
    if (!method.unpacked) {
      const id = unpack(method.test.scores, method.float32);
      const sets = method.sets.map((set) => unpack(set.scores, method.float32));
      method.unpacked = { id, sets, axis: axisOf(id, sets) };
    }
    return method.unpacked;
  }

  /** How many of the ascending scores lie below a value. */
  function below(scores, value) {
    let low = 0;
    let high = scores.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (scores[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  const quantile = (scores, share) => scores[Math.min(scores.length - 1, Math.floor(share * scores.length))];

  /** The range of the axis: most of all scores, and ID on at least a fifth of it, however far OOD scores lie. */
  function axisOf(id, sets) {
    const finite = (value, other) => (Number.isFinite(value) ? value : other);
    const firstFinite = (scores) => scores[below(scores, -Number.MAX_VALUE)];
    let [a, b] = [finite(quantile(id, 0.001), firstFinite(id)), finite(quantile(id, 0.999), firstFinite(id))];
    a = finite(a, 0);
    b = Math.max(a, finite(b, a));
    const width = b - a || Math.abs(a) || 1;
    const lows = sets.map((scores) => finite(quantile(scores, 0.005), a));
    const highs = sets.map((scores) => finite(quantile(scores, 0.995), b));
    const low = Math.max(Math.min(a, ...lows), a - 2 * width);
    const high = Math.min(Math.max(b, ...highs), b + 2 * width);
    const margin = (high - low || 1) * 0.02;
    return [low - margin, high + margin];
  }

  /** The share of a set in each of `bins` equal parts of the axis; what lies outside is in the outermost. */
  function shares(scores, [low, high], bins) {
    const found = [];
    let before = 0;
    for (let i = 1; i <= bins; i++) {
      const upTo = i === bins ? scores.length : below(scores, low + ((high - low) * i) / bins);
      found.push((upTo - before) / scores.length);
      before = upTo;
    }
    return found;
  }

  /** Counts at a threshold: accepted are the scores at or above it. */
  function countsAt(id, ood, sizes, threshold) {
    // A thinned set stands for `sizes` inputs; without thinning the factors are 1 and the counts exact.
    const kept = ((id.length - below(id, threshold)) * sizes.id) / id.length;
    const missed = ((ood.length - below(ood, threshold)) * sizes.ood) / ood.length;
    const lost = sizes.id - kept;
    const caught = sizes.ood - missed;
    return {
      kept, missed, lost, caught,
      tpr: kept / sizes.id,
      caughtShare: caught / sizes.ood,
      fpr: missed / sizes.ood,
      precisionRejected: caught / (caught + lost),
      precisionAccepted: kept / (kept + missed),
    };
  }

  /** The curves over every distinct score, from the highest down; points nearer than `gap` are not drawn. */
  function sweep(id, ood, gap) {
    const roc = [[0, 0]];
    const accepted = [];
    const rejected = [];
    let i = id.length;
    let j = ood.length;
    const push = (points, x, y) => {
      const last = points[points.length - 1];
      if (!last || Math.abs(last[0] - x) > gap || Math.abs(last[1] - y) > gap) points.push([x, y]);
    };
    while (i > 0 || j > 0) {
      const score = Math.max(i > 0 ? id[i - 1] : -Infinity, j > 0 ? ood[j - 1] : -Infinity);
      // Here the threshold lies just above `score`: what is rejected is id[0..i) and ood[0..j).
      if (j > 0) push(rejected, j / ood.length, j / (i + j));
      while (i > 0 && id[i - 1] >= score) i--;
      while (j > 0 && ood[j - 1] >= score) j--;
      const kept = id.length - i;
      const missed = ood.length - j;
      push(roc, missed / ood.length, kept / id.length);
      if (kept > 0) push(accepted, kept / id.length, kept / (kept + missed));
    }
    roc.push([1, 1]);
    accepted.push([1, id.length / (id.length + ood.length)]);
    return { roc, accepted, rejected };
  }

  const path = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");

  /** An empty chart in `box` with axes; returns its svg and the scales of both axes. */
  function frame(box, { x, y, xLabel, yLabel, label, height, yTick, xTick, names, root = false }) {
    const width = Math.max(240, Math.round(box.clientWidth) || 640);
    const size = height(width);
    const room = { left: yLabel ? 62 : 46, right: 20, top: 10, bottom: xLabel ? 44 : 26 };
    const svg = make("svg", { viewBox: `0 0 ${width} ${size}`, role: "img", "aria-label": label, style: `max-width: ${width}px` });
    const inner = { width: width - room.left - room.right, height: size - room.top - room.bottom };
    const bend = root ? Math.sqrt : (value) => value;
    const X = (value) => room.left + ((value - x[0]) / (x[1] - x[0])) * inner.width;
    const Y = (value) => room.top + (1 - (bend(value) - bend(y[0])) / (bend(y[1]) - bend(y[0]))) * inner.height;
    const bottom = room.top + inner.height;
    for (const tick of ticks(...y, inner.height / (root ? 26 : 44))) {
      svg.append(make("line", { class: "grid", x1: room.left, x2: width - room.right, y1: Y(tick.value), y2: Y(tick.value) }));
      const text = yTick ? yTick(tick.value) : tick.label;
      svg.append(make("text", { x: room.left - 8, y: Y(tick.value) + 4, "text-anchor": "end" }, text));
    }
    // As many of the names as fit, from the last one back: 7 px a letter.
    const every = names ? Math.ceil((7 * Math.max(...names.map((name) => name.length)) * (names.length - 1)) / inner.width) : 1;
    const named = names?.map((label, value) => ({ value, label: (names.length - 1 - value) % every ? "" : label }));
    for (const tick of named ?? ticks(...x, inner.width / 72)) {
      svg.append(make("line", { class: "axis", x1: X(tick.value), x2: X(tick.value), y1: bottom, y2: bottom + 5 }));
      const text = xTick ? xTick(tick.value) : tick.label;
      const last = names && tick.value === names.length - 1;
      svg.append(make("text", { x: X(tick.value) + (last ? room.right : 0), y: bottom + 19, "text-anchor": last ? "end" : "middle" }, text));
    }
    svg.append(make("line", { class: "axis", x1: room.left, x2: width - room.right, y1: bottom, y2: bottom }));
    if (xLabel) svg.append(make("text", { x: room.left + inner.width / 2, y: size - 6, "text-anchor": "middle" }, xLabel));
    if (yLabel) {
      const [cx, cy] = [14, room.top + inner.height / 2];
      svg.append(make("text", { x: cx, y: cy, "text-anchor": "middle", transform: `rotate(-90 ${cx} ${cy})` }, yLabel));
    }
    box.replaceChildren(svg);
    return { svg, X, Y, room, inner, bottom, width };
  }

  /** The outline of a histogram as a closed path. */
  function outline(values, [low, high], X, Y) {
    const points = [[X(low), Y(0)]];
    values.forEach((value, i) => {
      const edge = (k) => X(low + ((high - low) * k) / values.length);
      points.push([edge(i), Y(value)], [edge(i + 1), Y(value)]);
    });
    points.push([X(high), Y(0)]);
    return `${path(points)}Z`;
  }

  const hatch = () =>
    make("defs", {}, make("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
      make("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 6 })));

  function legend(list, entries) {
    list.replaceChildren(...entries.map(({ name, attributes }) => {
      const shape = "d" in attributes ? "path" : "line";
      const where = shape === "line" ? { x1: 0, x2: 22, y1: 6, y2: 6 } : {};
      return make("li", {}, make("svg", { viewBox: "0 0 22 12", "aria-hidden": "true" }, make(shape, { ...where, ...attributes })), name);
    }));
  }

  const areas = (ood) => [
    { name: "ID test", attributes: { d: "M1 11V4H8V1H15V4H21V11Z", class: "id-area" } },
    { name: ood, attributes: { d: "M1 11V4H8V1H15V4H21V11Z", class: "ood-area" } },
  ];
  const lineStyle = (i) => ({
    class: "line",
    style: `stroke: var(--s${i % 6})`,
    "stroke-dasharray": ["none", "7 3", "2 3", "9 3 2 3"][(i + Math.floor(i / 6)) % 4],
  });
  const inPercent = (value) => `${+(100 * value).toFixed(2)}\u00a0%`;

  const method = () => data.methods[state.method];
  const exactly = (value) => (method().float32 ? Math.fround(value) : value);
  const sizes = (set) => ({ id: method().test.n, ood: set.n });

  function drawHistogram() {
    const { id, sets, axis } = scoresOf(method());
    const set = method().sets[state.set];
    const ood = sets[state.set];
    const bins = Math.max(24, Math.min(80, Math.round((at("histogram").clientWidth || 640) / 11)));
    const values = [shares(id, axis, bins), shares(ood, axis, bins)];
    const top = Math.max(...values[0], ...values[1]) * 1.06;
    const chart = frame(at("histogram"), {
      x: axis, y: [0, top], xLabel: `score of ${method().name}`, yLabel: "share of the set", yTick: inPercent, root: at("root").checked,
      height: (width) => (width < 480 ? 240 : 300),
      label: `Histogram of the scores of ${method().name}: ID test against ${set.name}`,
    });
    const cut = Math.min(chart.X(axis[1]), Math.max(chart.X(axis[0]), chart.X(state.threshold)));
    chart.svg.prepend(make("rect", { class: "rejected", x: chart.room.left, y: chart.room.top, width: cut - chart.room.left, height: chart.inner.height }));
    chart.svg.append(
      make("path", { class: "id-area", d: outline(values[0], axis, chart.X, chart.Y) }),
      make("path", { class: "ood-area", d: outline(values[1], axis, chart.X, chart.Y) }),
      make("line", { class: "axis", x1: chart.room.left, x2: chart.width - chart.room.right, y1: chart.bottom, y2: chart.bottom }),
      make("line", { class: "cut", x1: cut, x2: cut, y1: chart.room.top - 4, y2: chart.bottom + 8 }),
    );
    const near = cut - chart.room.left < 80;
    const far = chart.width - chart.room.right - cut < 80;
    if (!near) chart.svg.append(make("text", { class: "strong", x: cut - 8, y: chart.room.top + 8, "text-anchor": "end" }, "← rejected"));
    if (!far) chart.svg.append(make("text", { class: "strong", x: cut + 8, y: chart.room.top + 8 }, "accepted →"));
    const slider = at("histogram").nextElementSibling;
    slider.style.setProperty("--left", `${chart.room.left}px`);
    slider.style.setProperty("--right", `${chart.room.right}px`);
    legend(at("histogram-legend"), areas(set.name));
    const outside = (scores) => below(scores, axis[0]) + scores.length - below(scores, axis[1]);
    const [idOut, oodOut] = [outside(id), outside(ood)];
    at("histogram-note").textContent = idOut + oodOut
      ? `The outermost bars also hold the scores beyond the axis: ${whole(idOut)} of ID, ${whole(oodOut)} of ${set.name}.` : "";
  }

  function drawCurves(counts) {
    const { id, sets } = scoresOf(method());
    const set = method().sets[state.set];
    const key = `${state.method} ${state.set}`;
    // The curves do not change with the threshold; only the operating point does.
    if (drawCurves.key !== key) Object.assign(drawCurves, { key, curves: sweep(id, sets[state.set], 1 / 1000) });
    const { roc, accepted, rejected } = drawCurves.curves;
    const height = (width) => Math.round(Math.min(380, Math.max(260, width * 0.8)));
    const share = { x: [0, 1], y: [0, 1], yTick: inPercent, xTick: inPercent, height };
    const draw = (box, options) => {
      const chart = frame(at(box), { ...share, ...options });
      const line = (points, name) => chart.svg.append(make("path", { class: `line ${name}`, d: path(points.map(([x, y]) => [chart.X(x), chart.Y(y)])) }));
      const point = (x, y) => Number.isNaN(y) || chart.svg.append(make("circle", { class: "point", cx: chart.X(x), cy: chart.Y(y), r: 5.5 }));
      return { ...chart, line, point };
    };
    const first = draw("roc", { xLabel: "OOD accepted (FPR)", yLabel: "ID accepted (TPR)", label: `ROC curve of ${method().name} against ${set.name}, AUROC ${percent(set.auroc)}` });
    first.svg.append(make("path", { class: "chance", d: path([[first.X(0), first.Y(0)], [first.X(1), first.Y(1)]]) }));
    first.line(roc, "id-line");
    const [cx, cy] = [first.X(counts.fpr), first.Y(counts.tpr)];
    first.svg.append(make("path", { class: "guide", fill: "none", d: path([[first.X(0), cy], [cx, cy], [cx, first.bottom]]) }));
    first.point(counts.fpr, counts.tpr);
    at("roc-note").textContent = `AUROC ${percent(set.auroc)}, ${data.fpr_name} ${percent(set.fpr)}. The ring is the threshold above.`;
    const second = draw("pr", { xLabel: "recall", yLabel: "precision", label: `Precision-recall curves of ${method().name} against ${set.name}: AUPR-in ${percent(set.aupr_in)}, AUPR-out ${percent(set.aupr_out)}` });
    second.line(accepted, "id-line");
    second.line(rejected, "ood-line");
    second.point(counts.tpr, counts.precisionAccepted);
    second.point(counts.caughtShare, counts.precisionRejected);
    at("pr-note").textContent = `Solid: ID among accepted, AUPR-in ${percent(set.aupr_in)}. Dashed: OOD among rejected, AUPR-out ${percent(set.aupr_out)}.`;
  }

  function drawMultiples() {
    const { id, sets, axis } = scoresOf(method());
    const focused = [...at("multiples").children].indexOf(document.activeElement);
    at("multiples").replaceChildren(...method().sets.map((set, i) => {
      const counts = countsAt(id, sets[i], sizes(set), state.threshold);
      const values = [shares(id, axis, 30), shares(sets[i], axis, 30)];
      const top = Math.sqrt(Math.max(...values[0], ...values[1]));
      const X = (value) => ((value - axis[0]) / (axis[1] - axis[0])) * 200;
      const Y = (value) => 62 - (Math.sqrt(value) / top) * 58;
      const cut = Math.min(200, Math.max(0, X(state.threshold)));
      const button = make("button", { type: "button", "aria-pressed": i === state.set },
        make("strong", {}, set.name),
        make("svg", { viewBox: "0 0 200 66", "aria-hidden": "true" },
          make("path", { class: "id-area", d: outline(values[0], axis, X, Y) }),
          make("path", { class: "ood-area", d: outline(values[1], axis, X, Y) }),
          make("line", { class: "cut", x1: cut, x2: cut, y1: 0, y2: 66 })),
        make("small", {}, make("span", {}, "caught"), make("span", {}, percent(counts.caughtShare))),
        make("small", {}, make("span", {}, "OOD of rejected"), make("span", {}, percent(counts.precisionRejected))));
      button.addEventListener("click", () => choose(state.method, i));
      return button;
    }));
    if (focused >= 0) at("multiples").children[focused].focus();
  }

  function readOut(counts) {
    const n = (count) => whole(Math.round(count));
    const set = method().sets[state.set];
    at("kept").textContent = percent(counts.tpr);
    at("kept-count").textContent = `${n(counts.kept)} of ${whole(method().test.n)} ID`;
    at("caught").textContent = percent(counts.caughtShare);
    at("caught-count").textContent = `${n(counts.caught)} of ${whole(set.n)} OOD`;
    at("precision-rejected").textContent = percent(counts.precisionRejected);
    at("rejected-count").textContent = `${n(counts.caught)} of ${n(counts.caught + counts.lost)} rejected`;
    at("precision-accepted").textContent = percent(counts.precisionAccepted);
    at("accepted-count").textContent = `${n(counts.kept)} of ${n(counts.kept + counts.missed)} accepted`;
    clearTimeout(readOut.timer); // speak once the slider rests
    readOut.timer = setTimeout(() => {
      at("spoken").textContent = `Keeps ${percent(counts.tpr)} of ID, catches ${percent(counts.caughtShare)} of ${set.name}.`;
    }, 500);
  }

  /** Draw everything that depends on the threshold. */
  function update() {
    const { id, sets, axis } = scoresOf(method());
    const counts = countsAt(id, sets[state.set], sizes(method().sets[state.set]), state.threshold);
    const shown = shortest(state.threshold, method().float32);
    at("threshold-range").value = Math.round((1000 * (state.threshold - axis[0])) / (axis[1] - axis[0]));
    at("threshold-range").setAttribute("aria-valuetext", shown);
    if (document.activeElement !== at("threshold-number")) at("threshold-number").value = Number.isFinite(state.threshold) ? shown : "";
    at("threshold-number").placeholder = Number.isFinite(state.threshold) ? "" : shown;
    readOut(counts);
    drawHistogram();
    drawCurves(counts);
    drawMultiples();
  }

  function setThreshold(value) {
    state.threshold = exactly(value);
    update();
  }

  /** Choose a method and an OOD set; another method starts at the threshold that was measured for it. */
  function choose(methodIndex, setIndex, fresh = false) {
    const changed = fresh || methodIndex !== state.method;
    state.method = methodIndex;
    state.set = Math.min(setIndex, method().sets.length - 1);
    const set = method().sets[state.set];
    if (changed) {
      const span = scoresOf(method()).axis;
      at("threshold-number").step = 10 ** Math.floor(Math.log10((span[1] - span[0]) / 200));
      state.threshold = set.threshold === "-inf" ? -Infinity : set.threshold === "inf" ? Infinity : set.threshold;
      at("ood").replaceChildren(...method().sets.map(({ name }, i) => make("option", { value: i }, name)));
      drawCalibration();
    }
    for (const select of document.querySelectorAll(".method-select")) select.value = state.method;
    showGallery();
    at("ood").value = state.set;
    update();
  }

  /** Show the images of the chosen method, which are fetched from the data when first asked for. */
  function showGallery() {
    const galleries = [...document.querySelectorAll(".gallery-of")];
    const chosen = galleries.find((gallery) => gallery.dataset.method === method().name);
    for (const gallery of galleries) gallery.hidden = gallery !== chosen;
    for (const image of chosen?.querySelectorAll("img[data-image]") ?? []) {
      image.src = data.images[image.dataset.image];
      image.removeAttribute("data-image");
    }
    if (!at("gallery-none")) return;
    at("gallery-none").hidden = Boolean(chosen);
    at("gallery-none").textContent = `No images were kept for ${method().name}.`;
  }

  function drawCalibration() {
    const { split, points, ties, n_calibration: held, n_test: n } = method().calibration;
    at("calibration-note").textContent = (split
      ? `There are no held-out scores: every other row of the ID test set (${whole(held)}) sets the threshold, the rest (${whole(n)}) is counted. `
      : `The threshold is set on ${whole(held)} held-out ID inputs; what it keeps is counted on the ${whole(n)} of the ID test set. `) +
      "The band is the 95 % binomial interval of the share that the threshold keeps." +
      (ties ? ` At the default, ${ties}` : "");
    const low = Math.min(0.8, ...points.map((point) => point.low));
    const chart = frame(at("calibration-chart"), {
      x: [0.795, 0.995], y: [Math.floor(low * 50) / 50, 1], xTick: inPercent, yTick: inPercent,
      xLabel: "share of ID promised", yLabel: "share of ID test kept",
      height: (width) => (width < 480 ? 280 : 360), label: `Promised and kept share of ID for ${method().name}; the table has the numbers`,
    });
    const along = (key) => points.map((point) => [chart.X(point.tpr), chart.Y(key === "kept" ? point.kept / n : point[key])]);
    chart.svg.append(
      make("path", { class: "band", d: `${path([...along("low"), ...along("high").reverse()])}Z` }),
      make("path", { class: "chance", d: path([[chart.X(0.795), chart.Y(0.795 < low ? low : 0.795)], [chart.X(0.995), chart.Y(0.995)]]) }),
      make("path", { class: "line id-line", d: path(along("kept")) }),
      ...along("kept").map(([cx, cy]) => make("circle", { class: "dot", cx, cy, r: 3 })),
    );
    legend(at("calibration-legend"), [
      { name: "kept, with its 95 % band", attributes: { class: "line id-line" } },
      { name: "as promised", attributes: { class: "chance" } },
    ]);
    at("calibration-rows").replaceChildren(...points.map((point) => make("tr", {},
      make("th", { scope: "row" }, inPercent(point.tpr)),
      make("td", { class: "num" }, typeof point.threshold === "string" ? minus(point.threshold.replace("inf", "∞")) : minus(+point.threshold.toPrecision(6))),
      make("td", { class: "num" }, percent(point.kept / n)),
      make("td", { class: "num" }, `${(100 * point.low).toFixed(2)} – ${(100 * point.high).toFixed(2)}`))));
  }

  function drawExperiments() {
    drawCharts("analysis-charts", [...data.histograms.map((chart) => ({ ...chart, steps: true, y_label: "share", x_label: "" })), ...data.curves]);
    drawCharts("layers-charts", data.depths);
  }

  /** Small charts side by side: histograms (`steps`), curves, or values at named places along the x axis. */
  function drawCharts(id, charts) {
    if (!at(id)) return;
    const figures = charts.map((chart) => ({ ...chart, list: make("ul", { class: "legend" }), box: make("div") }));
    // All boxes stand in the page before the first is drawn: their number decides how wide each is.
    at(id).replaceChildren(...figures.map((chart) => make("figure", { class: "chart" }, make("h3", {}, chart.title), chart.list, chart.box)));
    for (const chart of figures) {
      const xs = chart.series.flatMap((line) => line.x);
      const ys = chart.series.flatMap((line) => line.y);
      const span = (values, from) => {
        const [low, high] = values.reduce(([a, b], value) => [Math.min(a, value), Math.max(b, value)], [from, -Infinity]);
        return high > low ? [low, high] : [low - 0.5, low + 0.5];
      };
      // Steps from a thousandth to one are looked at by their order of magnitude.
      const [least, most] = span(xs, Infinity);
      const log = !chart.steps && !chart.names && least > 0 && most >= 100 * least;
      const along = log ? Math.log10 : (x) => x;
      const drawn = frame(chart.box, {
        names: chart.names,
        xTick: log ? (power) => (Number.isInteger(power) ? `${+(10 ** power).toPrecision(1)}` : "") : undefined,
        x: [along(least), along(most)], y: span(ys, chart.steps ? 0 : Infinity), xLabel: chart.x_label, yLabel: chart.y_label,
        yTick: chart.steps || chart.names ? inPercent : undefined, height: () => 260, label: `${chart.title}: ${chart.series.map((line) => line.name).join(", ")}`,
      });
      const filled = (line) => chart.steps && line.name === "test";
      chart.series.forEach((line, i) => {
        const points = chart.steps
          ? line.y.flatMap((y, k) => [[line.x[k], y], [line.x[k + 1], y]])
          : line.x.map((x, k) => [along(x), line.y[k]]);
        const d = path(points.map(([x, y]) => [drawn.X(x), drawn.Y(y)]));
        const close = `L${drawn.X(line.x.at(-1))} ${drawn.bottom}L${drawn.X(line.x[0])} ${drawn.bottom}Z`;
        if (chart.names) drawn.svg.append(...points.map(([x, y]) => make("circle", { cx: drawn.X(x), cy: drawn.Y(y), r: 3.5, style: `fill: var(--s${i % 6})` })));
        drawn.svg.append(make("path", filled(line) ? { class: "id-area", d: d + close } : { ...lineStyle(i), d }));
      });
      const shown = (name) => (name === "test" ? "ID test" : name);
      legend(chart.list, chart.series.map((line, i) => (filled(line) ? areas("")[0] : { name: shown(line.name), attributes: lineStyle(i) })));
    }
  }

  /** Sort each section of a table by one of its columns; cells without a value stay last. */
  function sortBy(header) {
    const headers = [...header.parentNode.children];
    const column = headers.indexOf(header);
    const sections = [...header.closest("table").tBodies].map((body) => [...body.querySelectorAll("tr:not(.section)")]);
    const key = (row) => row.children[column].dataset.v;
    const numeric = sections.flat().every((row) => key(row) === undefined || !Number.isNaN(Number(key(row))));
    // Numbers start with the largest, unless smaller is better; names with A.
    const first = numeric && !header.textContent.includes("↓") ? "descending" : "ascending";
    const opposite = { ascending: "descending", descending: "ascending" };
    const order = opposite[header.ariaSort] ?? first;
    const sign = order === "ascending" ? 1 : -1;
    const compared = (one, other) => {
      const [a, b] = [key(one), key(other)];
      if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
      return sign * (numeric ? a - b : a.localeCompare(b));
    };
    for (const rows of sections) rows[0]?.parentNode.append(...rows.sort(compared));
    for (const other of headers) other.setAttribute("aria-sort", other === header ? order : "none");
  }

  for (const header of document.querySelectorAll(".sortable thead th")) {
    header.querySelector("button").addEventListener("click", () => sortBy(header));
  }
  drawExperiments();
  const analysis = document.querySelector("#analysis details");
  // What is folded has no width to draw to.
  analysis.addEventListener("toggle", () => drawExperiments());
  const unfold = () => { if (location.hash === "#analysis") analysis.open = true; };
  addEventListener("hashchange", unfold);
  addEventListener("beforeprint", () => { analysis.open = true; });
  unfold();
  if (!data.methods.length) return;
  for (const label of document.querySelectorAll(".scripted")) label.hidden = false;

  for (const select of document.querySelectorAll(".method-select")) {
    select.append(...data.methods.map(({ name }, i) => make("option", { value: i }, name)));
    select.addEventListener("change", () => choose(Number(select.value), state.set));
  }
  document.body.append(make("svg", { width: 0, height: 0, "aria-hidden": "true", style: "position: absolute" }, hatch()));
  at("ood").addEventListener("change", () => choose(state.method, Number(at("ood").value)));
  at("threshold-range").addEventListener("input", () => {
    const { axis } = scoresOf(method());
    setThreshold(axis[0] + ((axis[1] - axis[0]) * at("threshold-range").value) / 1000);
  });
  at("threshold-number").addEventListener("input", () => {
    if (at("threshold-number").value !== "") setThreshold(at("threshold-number").valueAsNumber);
  });
  at("threshold-number").addEventListener("change", () => update());
  at("root").addEventListener("change", () => drawHistogram());
  for (const button of document.querySelectorAll("[data-keep]")) {
    button.addEventListener("click", () => {
      const { id } = scoresOf(method());
      setThreshold(id[Math.floor(((100 - button.dataset.keep) * id.length) / 100)]);
    });
  }
  choose(data.start, 0, true);

  let width = document.body.clientWidth;
  addEventListener("resize", () => {
    if (document.body.clientWidth === width) return;
    width = document.body.clientWidth;
    drawCalibration();
    drawExperiments();
    update();
  });
})();
