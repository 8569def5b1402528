// Charts as SVG, drawn from numbers of the server; each says in words what it shows.

import { count, number, score, svg } from "./dom.js";

const BEYOND = 0.6; // of the histogram's width that a chart may grow by for what lies outside it

/** Return the scores of held-out inputs as a histogram, with one score and its threshold on it. */
export function histogram(known, result, words) {
  const [width, height, top, foot, side] = [320, 108, 20, 20, 6];
  const edges = known.edges.map(number), counts = known.counts.map(number);
  const value = number(result.score), cut = number(result.threshold);
  const [low, high] = around(edges[0], edges.at(-1), [value, cut]);
  const x = v => side + (width - 2 * side) * (Math.min(Math.max(v, low), high) - low) / (high - low);
  const y = n => height - foot - (height - top - foot) * n / Math.max(...counts, 1);
  const chart = frame(width, height, words);
  if (Number.isFinite(cut)) chart.append(rect("rejected", 0, top - 4, x(cut), height - foot - top + 4));
  counts.forEach((n, i) => {
    const left = x(edges[i]), right = x(edges[i + 1]);
    if (n) chart.append(rect("bar", left, y(n), Math.max(right - left - 0.6, 0.8), height - foot - y(n)));
  });
  chart.append(line("axis", 0, height - foot, width, height - foot));
  if (Number.isFinite(cut)) {
    chart.append(line("cut", x(cut), top - 4, x(cut), height - foot + 4));
    chart.append(label(x(cut), height - 5, `threshold ${score(cut)}`, width));
  }
  const tone = mood(result.verdict);
  const outside = value < low ? "◂ " : "", beyond = value > high ? " ▸" : "";
  chart.append(line(`here ${tone}`, x(value), top - 3, x(value), height - foot));
  chart.append(mark(x(value), height - foot, tone, 5.5));
  chart.append(label(x(value), 13, `${outside}${score(value)}${beyond}`, width, `strong ${tone}`));
  return chart;
}

/** Return the latest scores in the order of their arrival, the last at the right; width: in pixels. */
export function recent(inputs, known, threshold, width) {
  const [height, left, foot] = [190, 52, 24];
  const values = inputs.map(input => number(input.score)).filter(Number.isFinite);
  const cut = number(threshold);
  const edges = known === null ? [Math.min(...values), Math.max(...values)] : known.edges.map(number);
  const [low, high] = around(edges[0], edges.at(-1), [...values, cut]);
  const y = v => 8 + (height - foot - 8) * (high - Math.min(Math.max(v, low), high)) / (high - low);
  const step = (width - left - 14) / Math.max(inputs.length - 1, 40);
  const atypical = inputs.filter(input => input.verdict === "atypical").length;
  const chart = frame(width, height, `The latest ${inputs.length} scores; ${atypical} are atypical.`);
  for (const v of ticks(low, high)) {
    chart.append(line("grid", left, y(v), width, y(v)));
    chart.append(label(left - 8, y(v) + 4, String(v).replace("-", "−"), width, "", "end"));
  }
  if (Number.isFinite(cut)) chart.append(line("cut dashed", left, y(cut), width, y(cut)));
  inputs.forEach((input, i) => {
    const x = width - 8 - step * (inputs.length - 1 - i);
    chart.append(mark(x, y(number(input.score)), mood(input.verdict), i === inputs.length - 1 ? 5 : 3.2));
  });
  if (Number.isFinite(cut)) {
    chart.append(label(left + 4, y(cut) - 5, `threshold ${score(cut)}`, width, "", "start"));
  }
  chart.append(label(left, height - 6, "earlier", width, "", "start"));
  chart.append(label(width, height - 6, "now", width, "", "end"));
  return chart;
}

/** Return how the monitor's wealth went, by powers of ten, and the limit at which it raises alarm. */
export function wealth(trace, limit, width) {
  const [height, left, foot] = [190, 52, 24];
  const points = trace.filter(point => point.wealth !== null)
    .map(point => [number(point.inputs), Math.log10(Math.max(number(point.wealth), 1e-6))]);
  const now = points.at(-1)?.[1] ?? 0, line10 = Math.log10(limit);
  const levels = points.map(point => point[1]);
  const low = Math.floor(Math.min(-1, ...levels)), high = Math.ceil(Math.max(line10 + 0.5, ...levels) + 0.01);
  const first = points[0]?.[0] ?? 0, last = Math.max(points.at(-1)?.[0] ?? 1, first + 1);
  const x = n => left + 6 + (width - left - 16) * (n - first) / (last - first);
  const y = v => 8 + (height - foot - 8) * (high - v) / (high - low);
  const chart = frame(width, height, `Wealth now ${score(10 ** now)}; the alarm is raised at ${score(limit)}.`);
  for (const v of ticks(low, high).filter(Number.isInteger)) {
    chart.append(line("grid", left, y(v), width, y(v)));
    chart.append(label(left - 8, y(v) + 4, power(v), width, "", "end"));
  }
  chart.append(line("limit", left, y(line10), width, y(line10)));
  chart.append(label(width, y(line10) - 5, `alarm at ${count(Math.round(limit))}`, width, "ood", "end"));
  if (points.length) {
    const path = points.map(([n, v], i) => `${i ? "L" : "M"}${x(n).toFixed(1)} ${y(v).toFixed(1)}`).join("");
    chart.append(svg("path", { class: "line", d: path }));
    chart.append(mark(x(points.at(-1)[0]), y(now), now >= line10 ? "ood" : "id", 5));
  }
  chart.append(label(left, height - 6, count(first), width, "", "start"));
  chart.append(label(width, height - 6, `${count(points.at(-1)?.[0] ?? 0)} inputs`, width, "", "end"));
  return chart;
}

/** Return the tone of a verdict: its colour and the shape of its mark. */
export const mood = verdict => ({ typical: "id", atypical: "ood" })[verdict] ?? "none";

function power(exponent) {
  if (exponent >= 0 && exponent <= 4) return count(10 ** exponent);
  if (exponent < 0 && exponent >= -2) return String(10 ** exponent);
  return `1e${exponent}`;
}

// The range of a chart: that of the known scores, and a little of what lies beyond it.
function around(low, high, values) {
  const span = high - low || Math.abs(high) || 1;
  const finite = values.filter(Number.isFinite);
  const from = Math.max(Math.min(low, ...finite), low - BEYOND * span);
  const to = Math.min(Math.max(high, ...finite), high + BEYOND * span);
  return [from - 0.04 * span, to + 0.04 * span];
}

function ticks(low, high) {
  const rough = (high - low) / 4, size = 10 ** Math.floor(Math.log10(rough));
  const step = size * [1, 2, 5, 10].find(factor => factor * size >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) found.push(Number((i * step).toPrecision(12)));
  return found;
}

const frame = (width, height, words) =>
  svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": words });
const line = (kind, x1, y1, x2, y2) => svg("line", { class: kind, x1, y1, x2, y2 });
const rect = (kind, x, y, width, height) => svg("rect", { class: kind, x, y, width, height });

// Typical is a disc, atypical a diamond: not by colour alone.
function mark(x, y, tone, size) {
  if (tone !== "ood") return svg("circle", { class: `mark ${tone}`, cx: x, cy: y, r: size });
  const s = size * 1.25;
  return svg("path", { class: "mark ood", d: `M${x} ${y - s}L${x + s} ${y}L${x} ${y + s}L${x - s} ${y}Z` });
}

// A text at x that stays within the chart.
function label(x, y, text, width, kind = "", anchor = null) {
  const half = 3.9 * text.length;
  const place = anchor === null ? Math.min(Math.max(x, half), width - half) : x;
  return svg("text", { class: kind, x: place, y, "text-anchor": anchor ?? "middle" }, text);
}
